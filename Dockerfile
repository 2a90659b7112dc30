# A bare Debian 12 with a plain user, which is all that the build needs: for macOS, Windows, and Linux of other kinds.
#
#   docker build -t torch_fusion .
#   docker run --rm -it --security-opt seccomp=unconfined -v torch_fusion_home:/home/user -v "$PWD":/workspace torch_fusion
FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 user
USER user
WORKDIR /workspace
