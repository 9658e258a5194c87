"""Specs that the API server would take, at random: every field that may be set sometimes is.

Values come from small pools: it is which fields meet that matters, not what a name is spelled like.
"""

from typing import Any

from hypothesis import strategies as st

METHODS_WITH_DRAFT = ("eagle", "eagle3", "dflash", "dspark", "draft_model")
labels = st.sampled_from(["a", "b-1", "serving", "x0"])
commits = st.sampled_from(["0" * 40, "0123456789abcdef0123456789abcdef01234567"])
digests = st.sampled_from(["0" * 64, "f" * 64])
keys = st.sampled_from(["team", "example.com/pool", "kubernetes.io/arch", "nvidia.com/gpu"])
maps = st.dictionaries(keys, labels, max_size=2)
quantities = st.sampled_from([0, 1, 64, "1", "500m", "4Gi", "1.5"])
env_names = st.sampled_from(["A", "B_2", "NCCL_NVLS_ENABLE", "HOME", "STANDIN_X"])
booleans = st.booleans()


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of `fields`."""
    return st.fixed_dictionaries({}, optional=fields)


def source(revision: str = "revision") -> st.SearchStrategy[dict[str, Any]]:
    paths = st.builds("/{}/{}".format, labels, labels)
    claims = st.builds("pvc://{}/{}".format, labels, labels)
    repositories = st.builds("hf://{}/{}".format, labels, labels)
    return st.one_of(
        st.fixed_dictionaries({"source": paths | claims}),
        st.fixed_dictionaries({"source": repositories, revision: commits}),
    )


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    return {"name": draw(labels), **draw(source()), **draw(some(servedName=labels))}


@st.composite
def speculatives(draw: st.DrawFn, *, synthetic: bool) -> dict[str, Any]:
    method = draw(st.sampled_from(["mtp", "ngram", *METHODS_WITH_DRAFT]))
    tokens = draw(st.integers(1, 8))
    speculative: dict[str, Any] = {"method": method, "numSpeculativeTokens": tokens}
    if method in METHODS_WITH_DRAFT:
        speculative["draftModel"] = draw(source())
    if synthetic:
        length = draw(st.floats(1, tokens + 1))
        speculative["rejection"] = {"method": "synthetic", "acceptanceLength": length}
    return {**speculative, **draw(some(attentionBackend=st.sampled_from(["TRITON_ATTN", "FLASH_ATTN"])))}


env_sources = st.one_of(
    st.fixed_dictionaries({"secretKeyRef": st.fixed_dictionaries({"name": labels, "key": labels})}),
    st.fixed_dictionaries({"configMapKeyRef": st.fixed_dictionaries({"name": labels, "key": labels})}),
    st.just({"fieldRef": {"fieldPath": "status.podIP"}}),
)
variables = st.one_of(
    st.fixed_dictionaries({"name": env_names, "value": st.sampled_from(["", "1", "$(A)/x"])}),
    st.fixed_dictionaries({"name": env_names, "valueFrom": env_sources}),
)
tolerations = st.one_of(
    st.fixed_dictionaries({"key": keys, "operator": st.just("Exists")}),
    st.fixed_dictionaries({"key": keys, "value": labels}, optional={"effect": st.just("NoSchedule")}),
)
timings = some(periodSeconds=st.integers(1, 60), timeoutSeconds=st.integers(1, 60), failureThreshold=st.integers(1, 99))


@st.composite
def engines(draw: st.DrawFn) -> dict[str, Any]:
    image = f"registry.example.com/{draw(labels)}@sha256:{draw(digests)}"
    env = draw(st.lists(variables, max_size=4, unique_by=lambda variable: variable["name"]))
    args = draw(st.lists(st.sampled_from(["--enforce-eager", "--load-format", "dummy"]), max_size=3))
    return {"version": draw(st.sampled_from(["0.33.0", "0.30.0"])), "image": image, "env": env, "args": args}


@st.composite
def accelerators(draw: st.DrawFn) -> dict[str, Any]:
    profile = draw(st.sampled_from(["gb200", "h200", "cpu"]))
    overrides = draw(
        some(
            nodesPerReplica=st.integers(1, 4),
            nodeLabels=maps,
            arch=st.sampled_from(["amd64", "arm64"]),
            tolerations=st.lists(tolerations, max_size=3),
            runtimeClassName=st.just("") | labels,
            shmSize=quantities,
            probes=some(startup=timings, liveness=timings, readiness=timings),
        )
    )
    gpus = {} if profile == "cpu" else draw(some(gpusPerNode=st.integers(1, 8)))
    return {"profile": profile, **overrides, **gpus}


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, Any]:
    """Volumes, and a mount of each."""
    sources = st.one_of(
        st.fixed_dictionaries({"persistentVolumeClaim": st.fixed_dictionaries({"claimName": labels})}),
        st.fixed_dictionaries({"emptyDir": some(sizeLimit=quantities)}),
        st.fixed_dictionaries({"configMap": st.fixed_dictionaries({"name": labels}, optional={"optional": booleans})}),
        st.fixed_dictionaries({"secret": st.fixed_dictionaries({"secretName": labels})}),
    )
    called = draw(st.lists(st.sampled_from(["cache", "data", "extra", "notes"]), max_size=3, unique=True))
    return {
        "volumes": [{"name": name, **draw(sources)} for name in called],
        "volumeMounts": [
            {"name": name, "mountPath": f"/mnt/{name}", **draw(some(readOnly=booleans))} for name in called
        ],
    }


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    extra = draw(
        some(
            labels=maps,
            annotations=maps,
            resources=some(
                requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities),
                limits=st.dictionaries(st.sampled_from(["cpu", "memory", "rdma/ib"]), quantities),
            ),
            nodeSelector=maps,
            tolerations=st.lists(tolerations, max_size=3),
            priorityClassName=labels,
            imagePullSecrets=st.lists(
                st.fixed_dictionaries({"name": labels}), max_size=2, unique_by=lambda secret: secret["name"]
            ),
            serviceAccountName=labels,
        )
    )
    return {**extra, **draw(volumes())}


@st.composite
def drains(draw: st.DrawFn) -> dict[str, int]:
    stop, shutdown = draw(st.integers(0, 60)), draw(st.integers(0, 600))
    grace = draw(st.integers(stop + shutdown + 1, 1000))
    return {
        "preStopSeconds": stop,
        "shutdownTimeoutSeconds": shutdown,
        "terminationGracePeriodSeconds": grace,
    }


@st.composite
def traffics(draw: st.DrawFn) -> dict[str, Any]:
    gateway = {"name": draw(labels), **draw(some(namespace=labels, sectionName=labels))}
    rest = some(
        hostnames=st.lists(labels.map("{}.example.com".format), max_size=3, unique=True),
        path=st.sampled_from(["/", "/v1", "/chat/v1"]),
        requestTimeout=st.sampled_from(["0s", "10m"]),
    )
    return {"gateway": gateway, **draw(rest)}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A spec that admission takes."""
    accelerator = draw(accelerators())
    synthetic = accelerator["profile"] == "cpu" and draw(booleans)
    return {
        "model": draw(models()),
        "speculative": draw(speculatives(synthetic=synthetic)),
        "engine": draw(engines()),
        "accelerator": accelerator,
        **draw(
            some(
                parallelism=some(tensor=st.integers(1, 8), pipeline=st.integers(1, 2), expert=booleans),
                replicas=st.integers(0, 20),
                minAvailable=st.integers(0, 20),
                template=templates(),
                drain=drains(),
                traffic=traffics(),
                metrics=some(scrapeInterval=st.sampled_from(["5s", "1m"])),
            )
        ),
    }
