"""Several sites, one untrusted miner: codes that only the sites can read."""

from tulle.sites.agreement import SiteAgreement
from tulle.sites.codec import SiteCodec
from tulle.sites.matching import MatchedPeople, match_people
from tulle.sites.summary import SiteSummary

__all__ = ["MatchedPeople", "SiteAgreement", "SiteCodec", "SiteSummary", "match_people"]
