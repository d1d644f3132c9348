import os
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpujob.core.errors import Problem, SpecError
from gpujob.core.spec import JobSpec, Steps
from gpujob.jobfile import load, reference, template

REPO = Path(__file__).parents[2]
BAD = REPO / "tests" / "bad_specs"
ENVIRON = {"LR": "2e-4", "WORD": "fast", "EMPTY": "", "HF_TOKEN": "hf_" + "a1" * 12, "CLOCK": "12:30"}
EXPECT = re.compile(r"# expect (?:(\S+\.yaml):)?(\d+):(\d+) (\S+) \| (.+)")
"""`# expect [file:]line:column field | fragment of the message`; a file that can hold no comment has a sidecar."""


def expectations(path: Path) -> list[re.Match[str]]:
    sidecar = path.with_name(f"{path.name}.expect")
    text = (sidecar if sidecar.exists() else path).read_text(encoding="utf-8")
    return [match for line in text.splitlines() if (match := EXPECT.fullmatch(line))]


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_mistake_is_told_at_its_place_and_nothing_else_is(path: Path) -> None:
    with pytest.raises(SpecError) as error:
        load(path, ENVIRON)
    expected = expectations(path)
    problems = error.value.problems
    places = [f"{os.path.relpath(each.path, BAD)}:{each.line}:{each.column} {each.field}" for each in problems]
    assert places == [
        f"{os.path.normpath(match[1] or path.name)}:{match[2]}:{match[3]} {match[4].removeprefix('-')}"
        for match in expected
    ]
    for problem, match in zip(problems, expected, strict=True):
        assert match[5] in str(problem)
        assert str(problem).isprintable()


def test_no_secret_is_ever_repeated() -> None:
    for name, words in {
        "secret_values": ["abc123def456", "AKIAIOS", "0123456789abcdef", "a1a1", "hunter22"],
        "secret_in_command": ["hf_0123"],
        "secrets_bad_names": ["1A"],
    }.items():
        with pytest.raises(SpecError) as error:
            load(BAD / f"{name}.yaml", ENVIRON)
        for problem in error.value.problems:
            assert not [word for word in words if word in f"{problem.message} {problem.hint}"]


def written(folder: Path, text: str | bytes, name: str = "job.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "rows.jsonl").touch()
    return path


TRAIN = "name: x\ntrain:\n  model: org/m\n  data: {path: rows.jsonl, validation: 5%}\n"


def loaded(folder: Path, text: str | bytes, **environ: str) -> JobSpec:
    return load(written(folder, text), environ)


def test_numbers_are_what_they_look_like(tmp_path: Path) -> None:
    text = TRAIN + "  learning_rate: 1e-4\n  weight_decay: .5\n  num_train_epochs: 3\n  max_steps: 1_000\n"
    train = loaded(tmp_path, text).train
    assert train
    assert (train.learning_rate, train.weight_decay, train.num_train_epochs, train.max_steps) == (1e-4, 0.5, 3, 1000)
    assert train.data.validation == 0.05


def test_a_number_where_a_text_is_due_keeps_its_characters(tmp_path: Path) -> None:
    spec = loaded(tmp_path, "name: 123\nrun: 'true'\nenv: {A: 1.10, B: 8, C: 1e3, D: ' x '}\n")
    assert spec.name == "123"
    assert spec.env == {"A": "1.10", "B": "8", "C": "1e3", "D": " x "}


def test_a_switch_may_be_yes(tmp_path: Path) -> None:
    train = loaded(tmp_path, TRAIN + "  gradient_checkpointing: yes\n").train
    assert train
    assert train.gradient_checkpointing is True


def test_a_file_from_windows_reads_the_same(tmp_path: Path) -> None:
    text = "name: x\nrun: |\n  a\n  b\nlimits: {duration: 1h}\n"
    assert loaded(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()) == loaded(tmp_path, text)


def test_quantities_are_read(tmp_path: Path) -> None:
    spec = loaded(tmp_path, TRAIN + "limits: {duration: 1h30m, cost: 8.00}\ncheckpoint: {interval: 50 steps}\n")
    assert (spec.limits.duration, spec.limits.cost) == (5400, 8)
    assert spec.checkpoint.interval == Steps(steps=50)


def test_aliases_and_merge_keys_are_followed(tmp_path: Path) -> None:
    text = "name: x\nrun: y\nstore: s3://b/p\nhosts:\n  - &a {ssh: a, price_per_hour: 1}\n  - {<<: *a, ssh: b}\n"
    spec = loaded(tmp_path, text)
    assert [(host.ssh, host.price_per_hour) for host in spec.hosts] == [("a", 1), ("b", 1)]


def test_variables_are_filled_in_and_typed_like_any_word(tmp_path: Path) -> None:
    text = TRAIN + '  learning_rate: ${LR}\n  max_steps: ${STEPS:-7}\n  seed: ${EMPTY:-9}\nenv: {A: "${N}/$$x$y"}\n'
    spec = loaded(tmp_path, text, LR="3e-5", EMPTY="", N="8")
    assert spec.train
    assert (spec.train.learning_rate, spec.train.max_steps, spec.train.seed) == (3e-5, 7, 9)
    assert spec.env == {"A": "8/$x$y"}


def test_the_shell_s_own_variables_are_left_to_the_shell(tmp_path: Path) -> None:
    spec = loaded(tmp_path, "name: x\nsetup: echo ${A} $$\nrun: echo ${B:?no} ${\n")
    assert (spec.setup, spec.run) == ("echo ${A} $$", "echo ${B:?no} ${")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_a_variable_can_never_add_keys(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    folder = tmp_path_factory.mktemp("inject")
    spec = loaded(folder, 'name: x\nrun: y\nenv: {A: "${V}"}\n', V=value)
    assert spec.env == {"A": value}
    assert spec == JobSpec(name="x", run="y", env={"A": value})


def test_extends_merges_keys_and_replaces_lists(tmp_path: Path) -> None:
    written(tmp_path, "limits: {duration: 1h, stall: 5m}\nsecrets: [A, B]\ntrain: {model: org/m}\n", "bases/grand.yaml")
    written(
        tmp_path, "extends: grand.yaml\nlimits: {stall: 6m}\ntrain: {data: {path: rows.jsonl}}\n", "bases/base.yaml"
    )
    spec = loaded(tmp_path, 'extends: bases/base.yaml\nname: x\nlimits: {grace: "${G}"}\nsecrets: [C]\n', G="9s")
    assert (spec.limits.duration, spec.limits.stall, spec.limits.grace) == (3600, 360, 9)
    assert spec.secrets == ("C",)
    assert spec.train
    assert spec.train.model == "org/m"


def test_nothing_in_place_of_an_inherited_group_removes_it(tmp_path: Path) -> None:
    written(tmp_path, TRAIN, "base.yaml")
    assert loaded(tmp_path, "extends: base.yaml\ntrain: ~\nrun: y\n").train is None


def test_extending_itself_is_a_circle(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="goes round in a circle"):
        loaded(tmp_path, "extends: job.yaml\nname: x\n")


def test_a_file_that_is_not_there_is_named_with_its_neighbour(tmp_path: Path) -> None:
    written(tmp_path, TRAIN)
    with pytest.raises(SpecError, match=r"there is no file .*did you mean .*job\.yaml"):
        load(tmp_path / "jobs.yaml", {})


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="name the job"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name: x\nrun: y\n#" + b"x" * 300_000, "larger than 256 KiB"),
        (b"a: " + b"[" * 20_000, "nested too deeply"),
        (b"a: " + b"[" * 50 + b"]" * 50, "nested more than 40 deep"),
    ],
)
def test_more_than_a_job_can_be_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        loaded(tmp_path, data)


@given(st.one_of(st.binary(), st.text("abnamerun:{}[]'\"|>-*&!%@`#$ \t\n\r0123456789.~<").map(str.encode)))
@example(b"\x0b\x01\x80")
def test_any_bytes_give_a_spec_or_a_plain_problem(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(SpecError) as error:
        loaded(tmp_path_factory.mktemp("fuzz"), data)
    assert error.value.problems
    lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\xc2\x85") + data.count(b"\xe2\x80") + 1
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in error.value.problems)


@given(st.integers(0, 10**6), st.integers(0, 3), st.text("a:{}[]'\"|>-*&!%@`#$ \t\n\r0.~<\x85\u2028\ud7ff", max_size=4))
def test_a_slip_of_the_finger_gives_a_spec_or_a_plain_problem(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, insert: str
) -> None:
    folder = tmp_path_factory.mktemp("slip")
    (folder / "train.jsonl").touch()
    text = template()
    at %= len(text)
    with suppress(SpecError):
        assert loaded(folder, text[:at] + insert + text[at + cut :]).name


def test_the_template_is_valid_beside_its_data(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").touch()
    spec = loaded(tmp_path, template())
    assert spec.train
    assert spec.limits.duration == 36_000


@pytest.mark.parametrize("path", sorted((REPO / "jobs").glob("*/job.yaml")), ids=lambda path: path.parent.name)
def test_every_job_of_ours_is_well_formed(path: Path) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        load(path, {})
    except SpecError as error:
        problems = error.problems
    # Data and models that a job's own prepare step makes are not in the repository.
    assert [str(each) for each in problems if "there is no" not in each.message] == []


def test_the_reference_in_the_docs_is_current() -> None:
    page = (REPO / "docs" / "job-yaml.md").read_text(encoding="utf-8")
    generated = re.search(r"<!-- begin generated -->\n(.*)<!-- end generated -->", page, re.DOTALL)
    assert generated
    assert generated[1] == reference(), "put the output of gpujob.jobfile.reference() between the markers"


def test_the_examples_in_the_docs_load(tmp_path: Path) -> None:
    page = (REPO / "docs" / "job-yaml.md").read_text(encoding="utf-8")
    (tmp_path / "train.jsonl").touch()
    examples = re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", page, re.DOTALL)
    assert examples
    for name, text in examples:
        written(tmp_path, text, name)
    for name, _ in examples:
        if not name.startswith("base"):
            load(tmp_path / name, {"LR": "1e-4"})
