# The extender, and, as the target "sidecar", the small image of the quantum sidecar. `make image` and
# `make sidecar-image` build them by Docker or buildah:
#
#   docker build --tag fluence-extender:0.1.0 .
#   docker build --target sidecar --tag fluence-sidecar:0.1.0 .
#
# The extender's base is flux-sched's own image (libreapi_cli.so in /usr/lib/flux, Python 3.12); any other with
# flux-sched >= 0.53, Python >= 3.11 and apt does as well. Its tag moves. Builds that are to be repeated name a digest:
#
#   docker build --build-arg BASE=fluxrm/flux-sched@sha256:... --tag fluence-extender:0.1.0 .
#
# Without the library the image is half as large, and any Debian base with Python will do:
#
#   docker build --build-arg ENGINE=embedded --build-arg BASE=python:3.13-slim --tag fluence-extender:0.1.0 .
#
# All Python packages come in the versions and with the hashes of requirements/. Each image lists its own in
# /opt/fluence/sbom.cdx.json (CycloneDX), and has neither pip nor setuptools in /opt/fluence, nor what deploy/image/install
# removes.
ARG BASE=fluxrm/flux-sched:noble
ARG SIDECAR_BASE=debian:trixie-slim@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a

FROM ${BASE} AS build
# hadolint ignore=DL3002,DL3066
USER root
WORKDIR /src
COPY requirements ./requirements
COPY deploy/image/install ./deploy/image/install
RUN deploy/image/install tools \
 && deploy/image/install packages project
COPY pyproject.toml README.md LICENSE ./
COPY fluxion_ffi ./fluxion_ffi
COPY fluence_extender ./fluence_extender
RUN deploy/image/install wheel \
 && deploy/image/install project

FROM ${SIDECAR_BASE} AS sidecar-build
WORKDIR /src
COPY requirements ./requirements
COPY deploy/image/install ./deploy/image/install
RUN deploy/image/install tools \
 && deploy/image/install packages sidecar
COPY --from=build /wheel /wheel
RUN deploy/image/install project

FROM ${SIDECAR_BASE} AS sidecar
# hadolint ignore=DL3008
RUN command -v python3 >/dev/null \
 || { apt-get update \
   && apt-get install --yes --no-install-recommends ca-certificates python3 \
   && rm -rf /var/lib/apt/lists/*; }
ENV PATH=/opt/fluence/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=sidecar-build /opt/fluence /opt/fluence
USER 65532:65532
WORKDIR /
RUN ["python3", "-c", "import fluence_extender.apps.sidecar.running"]
ENTRYPOINT ["fluence-sidecar"]

FROM ${BASE}
ARG ENGINE=fluxion
ENV PATH=/opt/fluence/bin:$PATH \
    LD_LIBRARY_PATH=/usr/lib/flux \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/fluence /opt/fluence
# By number, so that Kubernetes can tell it isn't root.
USER 65532:65532
WORKDIR /
# A base without a usable library would leave the extender on its embedded engine, unnoticed: ask for the engine by name.
RUN python3 -c "from fluence_extender.apps.extender.engines import choose_engine; print(choose_engine('${ENGINE}', 'lonode'))"
# /v1, /metrics and the probes; the verbs are for the scheduler in the same pod.
EXPOSE 8889
ENTRYPOINT ["fluence-extender"]
CMD ["serve"]
