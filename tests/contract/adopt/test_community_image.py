"""An image that another project published: glance lists it only if asked, and its name shows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.engine.existing_cloud.checks import check_existing_cloud
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import ExistingObjects
from strata.site_file.problems import SiteError

from .conftest import Place
from .small_cloud import SmallCloud, serve


def test_a_community_image_is_used_by_its_id(
    state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with serve(SmallCloud("campus")) as cloud:
        place = Place(tmp_path, cloud)
        place.write_files()
        (image,) = cloud.images.values()
        image["visibility"] = "community"
        with pytest.raises(SiteError) as raised:
            check_existing_cloud(SiteContext.load(place.file), Silent())
        (problem,) = raised.value.problems
        assert problem.key == "cloud.images[0].name"
        assert "only community images have this name, which any project can publish" in problem.why
        fix = problem.fix.partition(",")[0]
        assert fix == f"id: {image['id']}"
        text = place.file.read_text()
        place.file.write_text(text.replace("name: debian-13\n", f"name: debian-13\n    {fix}\n", 1))
        context = SiteContext.load(place.file)
        check_existing_cloud(context, Silent())
        recorded = ExistingObjects.load(context.paths)
        assert recorded is not None
        assert recorded.images == {"debian-13": image["id"]}
