# The extender with the real Fluxion library, and, as the target "sidecar", the small image of the quantum sidecar:
#
#   docker build --tag fluence-extender:0.1.0 .
#   docker build --target sidecar --tag fluence-sidecar:0.1.0 .
#
# The extender's base is flux-sched's own image (libreapi_cli.so in /usr/lib/flux, Python 3.12); any other with
# flux-sched >= 0.53, Python >= 3.11 and apt does as well. Its tag moves. Builds that are to be repeated name a digest:
#
#   docker build --build-arg BASE=fluxrm/flux-sched@sha256:... --tag fluence-extender:0.1.0 .
#
# All Python packages come in the versions and with the hashes of requirements/. Each image lists its own in
# /opt/fluence/sbom.cdx.json (CycloneDX), and has neither pip nor setuptools in /opt/fluence.
ARG BASE=fluxrm/flux-sched:noble
ARG SIDECAR_BASE=debian:trixie-slim@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a

FROM ${BASE} AS build
# hadolint ignore=DL3002,DL3066
USER root
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements ./requirements
COPY deploy/image/install ./deploy/image/install
RUN deploy/image/install tools
COPY pyproject.toml README.md LICENSE ./
COPY fluxion_ffi ./fluxion_ffi
COPY fluence_extender ./fluence_extender
RUN deploy/image/install wheel \
 && deploy/image/install packages project

FROM ${SIDECAR_BASE} AS sidecar-build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements ./requirements
COPY deploy/image/install ./deploy/image/install
RUN deploy/image/install tools
COPY --from=build /wheel /wheel
RUN deploy/image/install packages sidecar

FROM ${SIDECAR_BASE} AS sidecar
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/fluence/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=sidecar-build /opt/fluence /opt/fluence
USER 65532:65532
WORKDIR /
RUN ["python3", "-c", "import fluence_extender.apps.sidecar.running"]
ENTRYPOINT ["fluence-sidecar"]

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
