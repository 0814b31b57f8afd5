"""The charts of reports and notebooks."""

from tulle._charts.chart import FIELDS, chart, spec

__all__ = ["FIELDS", "chart", "spec"]
