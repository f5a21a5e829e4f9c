"""How both Pulumi programs begin: the stack's name is the site's, and a user's error is shown without a traceback."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pulumi

from strata.errors import UserError
from strata.models.cloud import Cloud
from strata.models.cluster import Cluster
from strata.models.site import Site
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.loader import load_site

SITE_FILE_VARIABLE = "STRATA_SITE_FILE"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def without_traceback(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turns a user's error into the one that Pulumi shows without a traceback."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise pulumi.RunError(str(error)) from error

    return run


@without_traceback
def stack_site() -> tuple[Site, Path]:
    """The stack's site, from inventories/<stack>/site.yaml or the file that $STRATA_SITE_FILE names.

    Raises:
        pulumi.RunError: an error in the file, or it describes another site than the stack.
    """
    stack = pulumi.get_stack()
    given = os.environ.get(SITE_FILE_VARIABLE)
    file = Path(given) if given else REPOSITORY / "inventories" / stack / "site.yaml"
    site = load_site(file)
    if site.name != stack:
        raise UserError(
            f"{file} describes the site {site.name}, the stack is {stack}",
            fix=f"pulumi up -s {site.name}, or set {SITE_FILE_VARIABLE} to the file of {stack}",
        )
    return site, file


@without_traceback
def required_cloud(site: Site) -> Cloud:
    """The site's cloud.

    Raises:
        pulumi.RunError: the site has none.
    """
    if site.cloud is None:
        raise UserError(
            f"site {site.name} has no cloud, only machines of its own",
            fix="add `cloud:` to site.yaml, or skip the layer",
        )
    return site.cloud


@without_traceback
def required_cluster(site: Site) -> Cluster:
    """The site's cluster.

    Raises:
        pulumi.RunError: the site has none.
    """
    if site.cluster is None:
        raise UserError(f"site {site.name} has no cluster", fix="add `cluster:` to site.yaml, or skip the layer")
    return site.cluster


@without_traceback
def required_images(site: Site) -> ImageOutputs:
    """The images in the site's registry.

    Raises:
        pulumi.RunError: none have been pushed.
    """
    images = ImageOutputs.load(SitePaths(site.name))
    if images is None:
        raise UserError(
            f"site {site.name}: no images have been pushed to its registry",
            fix=f"strata up {site.name} --layer cluster",
        )
    return images
