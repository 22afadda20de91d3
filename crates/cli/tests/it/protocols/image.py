"""Writes an OCI image with one layer of 20 MB of noise to the folder `image`."""
import gzip, hashlib, io, json, os, tarfile

def store(name, data):
    os.makedirs(os.path.dirname("image/" + name) or ".", exist_ok=True)
    with open("image/" + name, "wb") as file:
        file.write(data)

def blob(kind, data):
    digest = hashlib.sha256(data).hexdigest()
    store("blobs/sha256/" + digest, data)
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}

def document(value):
    return json.dumps(value).encode()

archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    member = tarfile.TarInfo("noise")
    member.size = 20_000_000
    tar.addfile(member, io.BytesIO(os.urandom(member.size)))
diff = "sha256:" + hashlib.sha256(archive.getvalue()).hexdigest()
layer = blob("layer.v1.tar+gzip", gzip.compress(archive.getvalue(), 1))
config = blob("config.v1+json", document({"architecture": "amd64", "os": "linux", "config": {},
    "rootfs": {"type": "layers", "diff_ids": [diff]}}))
manifest = blob("manifest.v1+json", document({"schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer]}))
manifest["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
store("index.json", document({"schemaVersion": 2, "manifests": [manifest]}))
store("oci-layout", document({"imageLayoutVersion": "1.0.0"}))
