from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.client.settings import Settings
from gpujob.core.errors import UsageError


def test_the_home_is_named_or_lies_in_the_users_data_folder():
    assert Settings.read({"GPUJOB_HOME": "/x/y", "HOME": "/h"}).home.root == Path("/x/y")
    assert Settings.read({"HOME": "/h", "XDG_DATA_HOME": "/d"}).home.root == Path("/d/gpujob")
    assert Settings.read({"HOME": "/h"}).home.root.is_relative_to("/h")


def test_defaults_and_values():
    assert (Settings.read({"HOME": "/h"}).poll_seconds, Settings.read({"HOME": "/h"}).beat_seconds) == (1.0, 5.0)
    read = Settings.read({"HOME": "/h", "GPUJOB_POLL_SECONDS": "0.5", "GPUJOB_BEAT_SECONDS": "2"})
    assert (read.poll_seconds, read.beat_seconds) == (0.5, 2.0)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", "1e9"])
def test_a_wrong_value_is_named(text):
    with pytest.raises(UsageError, match="GPUJOB_POLL_SECONDS"):
        Settings.read({"HOME": "/h", "GPUJOB_POLL_SECONDS": text})


def test_what_is_exported_reads_the_same_and_nothing_prints_the_environment():
    read = Settings.read({"HOME": "/h", "GPUJOB_BEAT_SECONDS": "2", "HF_TOKEN": "hf_very_secret"})
    again = Settings.read(read.exported())
    assert (again.home, again.poll_seconds, again.beat_seconds) == (read.home, read.poll_seconds, read.beat_seconds)
    assert "hf_very_secret" not in repr(read)
