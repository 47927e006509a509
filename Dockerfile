# An image with only the program. `make docker-build` builds it as a static program first, so no other image is pulled.
# The image needs no CA certificates: that of the API server is mounted with the service account.
FROM scratch
COPY target/image/controller/ /
USER 65532:65532
ENTRYPOINT ["/rollcall"]
