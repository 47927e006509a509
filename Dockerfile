# The program and nothing else. It is built before, statically, by `make docker-build`, so no other image is pulled.
# There are no CA certificates in it, because none are needed: the API server's is mounted with the service account.
FROM scratch
COPY target/image/controller/ /
USER 65532:65532
ENTRYPOINT ["/rollcall"]
