"""What a service can need from the platform; each word is one module, which also provides it."""

from strata.catalogue.need import Need, SecretReference
from strata.catalogue.needs.accelerators import Accelerators
from strata.catalogue.needs.api_path import ApiPath
from strata.catalogue.needs.audience import Audience
from strata.catalogue.needs.batch_queue import BatchQueue
from strata.catalogue.needs.bucket import Bucket, TenantBuckets
from strata.catalogue.needs.client import Client
from strata.catalogue.needs.dask_clusters import DaskClusters
from strata.catalogue.needs.database import Database
from strata.catalogue.needs.front_page import FrontPageEntry
from strata.catalogue.needs.hostname import Hostname
from strata.catalogue.needs.hugging_face import HuggingFace
from strata.catalogue.needs.left_out import LeftOutOfBackups
from strata.catalogue.needs.metrics import Metrics
from strata.catalogue.needs.metrics_query import MetricsQuery
from strata.catalogue.needs.model_endpoint import ModelEndpoints
from strata.catalogue.needs.namespace import Namespace, TenantNamespaces
from strata.catalogue.needs.priority import Priority
from strata.catalogue.needs.secret import Secret
from strata.catalogue.needs.shared_volume import NfsFolder, SharedVolume, TenantFolders
from strata.catalogue.needs.tenant_quota import TenantQuota
from strata.catalogue.needs.upstream_chart import UpstreamChart
from strata.catalogue.needs.wildcard_hostname import WildcardHostname

__all__ = [
    "Accelerators",
    "ApiPath",
    "Audience",
    "BatchQueue",
    "Bucket",
    "Client",
    "DaskClusters",
    "Database",
    "FrontPageEntry",
    "Hostname",
    "HuggingFace",
    "LeftOutOfBackups",
    "Metrics",
    "MetricsQuery",
    "ModelEndpoints",
    "Namespace",
    "Need",
    "NfsFolder",
    "Priority",
    "Secret",
    "SecretReference",
    "SharedVolume",
    "TenantBuckets",
    "TenantFolders",
    "TenantNamespaces",
    "TenantQuota",
    "UpstreamChart",
    "WildcardHostname",
]
