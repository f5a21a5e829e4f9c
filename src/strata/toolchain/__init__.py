"""The external tools: pinned in versions.yaml, found, downloaded or built, and put on PATH."""

from strata.toolchain import charts, mirror
from strata.toolchain.cache import Source, Tool
from strata.toolchain.environment import bin_directory, pulumi_home, tools_environment, tools_variables
from strata.toolchain.report import ToolReport, cache_sizes, report
from strata.toolchain.resolve import ToolUnavailable, ensure, location
from strata.toolchain.versions import Versions, load_versions

__all__ = [
    "Source",
    "Tool",
    "ToolReport",
    "ToolUnavailable",
    "Versions",
    "bin_directory",
    "cache_sizes",
    "charts",
    "ensure",
    "load_versions",
    "location",
    "mirror",
    "pulumi_home",
    "report",
    "tools_environment",
    "tools_variables",
]
