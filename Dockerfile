# The extender with the real Fluxion library. The base is flux-sched's own image (libreapi_cli.so in /usr/lib/flux,
# Python 3.12); any other with flux-sched >= 0.53, Python >= 3.11 and apt does as well:
#
#   docker build --build-arg BASE=fluxrm/flux-sched:bookworm --tag fluence-extender:0.1.0 .
ARG BASE=fluxrm/flux-sched:noble

FROM ${BASE} AS build
# hadolint ignore=DL3002,DL3066
USER root
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY fluxion_ffi ./fluxion_ffi
COPY fluence_extender ./fluence_extender
RUN python3 -m venv /opt/fluence \
 && /opt/fluence/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . \
 && /opt/fluence/bin/pip install --no-cache-dir /wheel/*.whl

FROM ${BASE}
ENV PATH=/opt/fluence/bin:$PATH \
    LD_LIBRARY_PATH=/usr/lib/flux \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/fluence /opt/fluence
# By number, so that Kubernetes can tell it isn't root.
USER 65532:65532
WORKDIR /
# A base without a usable library would leave the extender on its embedded engine, unnoticed: ask for the library by name.
RUN ["python3", "-c", "import fluxion_ffi; library = fluxion_ffi.open_library(); print(library.origin, library.version)"]
# /v1, /metrics and the probes; the verbs are for the scheduler in the same pod.
EXPOSE 8889
ENTRYPOINT ["fluence-extender"]
CMD ["serve"]
