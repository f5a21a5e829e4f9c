"""`python -m strata_lab.kubernetes_provider ENGINE`, as the plugin's launcher calls it."""

import sys

from strata_lab.kubernetes_provider.provider import serve

serve(sys.argv[1:])
