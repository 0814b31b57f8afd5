"""Several sites, one untrusted miner: codes that only the sites can read."""

from tulle.sites.agreement import SiteAgreement
from tulle.sites.codec import SiteCodec
from tulle.sites.summary import SiteSummary

__all__ = ["SiteAgreement", "SiteCodec", "SiteSummary"]
