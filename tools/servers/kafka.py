"""Apache Kafka, one KRaft node, from Maven: needs `java` (17 or later) and `mvn`.

Listens twice: in plain text, and as SASL_SSL with the mechanisms PLAIN and SCRAM-SHA-256 and a certificate of its
own, so that secured connections are tested too.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from tools.servers._install import cached, need, run
from tools.servers._process import Server, answers, attach, ports, spawn

__all__ = ["VERSION", "install", "start"]

VERSION = "4.4.0"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>churnbench</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""

_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # A killed broker is back in 5 to 7 s instead of 12 to 14.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
}


def install() -> Path:
    """The folder of Kafka's jars.

    Raises:
        NotInstallableError: Java or Maven is missing, or Maven failed.
    """
    need("java", "mvn", "keytool")

    def make(folder: Path) -> None:
        (folder / "pom.xml").write_text(_POM)
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime"]
        run(copy, cwd=folder)

    return cached(f"kafka-{VERSION}", make) / "libs"


def _certificate(folder: Path, password: str) -> None:
    store = ["-keystore", str(folder / "key.p12"), "-storetype", "PKCS12", "-storepass", password, "-alias", "broker"]
    name = ["-dname", "CN=localhost", "-ext", "SAN=IP:127.0.0.1,DNS:localhost", "-validity", "3650"]
    run(["keytool", "-genkeypair", "-keyalg", "RSA", "-keysize", "2048", *store, *name])
    run(["keytool", "-exportcert", "-rfc", "-file", str(folder / "ca.pem"), *store])


def _format(folder: Path, classpath: str, user: str, password: str) -> None:
    java = ["java", "-cp", classpath]
    cluster = run([*java, "kafka.tools.StorageTool", "random-uuid"]).split()[-1]
    scram = f"SCRAM-SHA-256=[name={user},password={password}]"
    config = str(folder / "server.properties")
    run([*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", config, "--add-scram", scram])


def start(folder: Path, **settings: str) -> Server:
    """Starts a broker over `folder`, or gives the one that runs there.

    Args:
        folder: data and configuration; empty or missing for a new cluster.
        settings: broker settings over the defaults, with `_` for `.`; for a new cluster only.

    Returns:
        The server; `extra` has `secure_url`, `ca` (its certificate, PEM), `user` and `password`.

    Raises:
        NotInstallableError: see `install`.
        StartError: it did not start.
    """
    folder = folder.absolute()
    running = attach(folder)
    if running is not None:
        return running
    classpath = f"{install()}/*"
    port = ports(folder, "plain", "controller", "secure")
    user, secret = "bench", folder / "password"
    data, config = folder / "data", folder / "server.properties"
    if not data.is_dir():
        password = secrets.token_hex(12)
        secret.touch(0o600)
        secret.write_text(password)
        _certificate(folder, password)
        plain, control, secure = (f"127.0.0.1:{port[name]}" for name in ("plain", "controller", "secure"))
        login = "org.apache.kafka.common.security"
        properties = {
            **_PROPERTIES,
            "controller.quorum.voters": f"1@{control}",
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{control},SECURE://{secure}",
            "advertised.listeners": f"PLAINTEXT://{plain},SECURE://{secure}",
            "log.dirs": str(data),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(folder / "key.p12"),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "listener.name.secure.plain.sasl.jaas.config": (
                f'{login}.plain.PlainLoginModule required username="{user}" password="{password}" '
                f'user_{user}="{password}";'
            ),
            "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        config.touch(0o600)
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        try:
            _format(folder, classpath, user, password)
        except BaseException:
            shutil.rmtree(data, ignore_errors=True)
            raise
    return spawn(
        "kafka",
        f"127.0.0.1:{port['plain']}",
        folder,
        ["java", "-Xms256m", "-Xmx512m", "-cp", classpath, "kafka.Kafka", str(config)],
        lambda printed: "Kafka Server started" in printed and answers(port["plain"]),
        extra={
            "secure_url": f"127.0.0.1:{port['secure']}",
            "ca": str(folder / "ca.pem"),
            "user": user,
            "password": secret.read_text(),
        },
    )
