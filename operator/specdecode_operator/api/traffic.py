"""How requests reach the pods, and how a pod leaves without cutting them (`spec.traffic`, `spec.drain`)."""

from typing import Annotated

from pydantic import Field

from specdecode_operator.api.cel import Rule, number
from specdecode_operator.api.fields import DNS_NAME, Duration, LabelName, Model, ObjectName, as_set, spelled


class Drain(Model):
    """How a pod leaves without cutting a stream."""

    RULES = (
        Rule(
            rule="self.terminationGracePeriodSeconds > self.preStopSeconds + self.shutdownTimeoutSeconds",
            found=f"{{{number('self.terminationGracePeriodSeconds', 5)}}} s",
            allowed="more than preStopSeconds + shutdownTimeoutSeconds = "
            f"{{{number('self.preStopSeconds + self.shutdownTimeoutSeconds', 4)}}} s",
            action="raise it, or lower the others: the engine would be killed while streams still run",
            field_path=".terminationGracePeriodSeconds",
        ),
    )

    pre_stop_seconds: Annotated[int, Field(ge=0, le=600)] = Field(
        default=15, description="Seconds a pod goes on serving after it was told to go, while routers take it out."
    )
    shutdown_timeout_seconds: Annotated[int, Field(ge=0, le=7200)] = Field(
        default=120, description="Seconds the engine then gives requests in flight to finish."
    )
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=10800)] = Field(
        default=150,
        description="Seconds until the pod is killed, whatever it does. More than preStopSeconds and "
        "shutdownTimeoutSeconds together.",
    )


class GatewayRef(Model):
    """The Gateway that brings requests."""

    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: LabelName | None = Field(default=None, description="Its namespace. Absent: the object's own.")
    section_name: ObjectName | None = Field(default=None, description="One listener of it. Absent: all that allow it.")


class Traffic(Model):
    """How requests reach the pods."""

    RULES = (
        Rule(
            rule="!self.path.matches('//|/[.][.]?(/|$)|%2[fF]')",
            found="{self.path}",
            allowed="a path without //, /./, /../ or an encoded slash",
            action="write the plain path",
            field_path=".path",
        ),
    )

    gateway: GatewayRef = Field(description="The Gateway that brings requests.")
    hostnames: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    min_length=1,
                    max_length=253,
                    json_schema_extra=spelled(
                        f"^([*][.])?{DNS_NAME[1:]}",
                        "a DNS name, with *. in front for all below it; parts of at most 63 lower-case letters, digits "
                        "and dashes; no address",
                        never="[^.]{64}|^[0-9.]+$",
                    ),
                ),
            ],
            ...,
        ],
        Field(max_length=16),
    ] = Field(
        default=(),
        description="Hostnames that lead here. Absent: any that the listener allows.",
        json_schema_extra=as_set(),
    )
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            json_schema_extra=spelled(
                "^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$",
                "a slash, then what a URL's path may hold; other characters as % and two hexadecimal digits",
            ),
        ),
    ] = Field(default="/", description="Path prefix of the requests that lead here.")
    request_timeout: Duration = Field(
        default="0s",
        description="Time limit of one request at the gateway. 0s: none, since a stream lasts as long as its answer.",
    )
    settle_seconds: Annotated[int, Field(ge=0, le=600)] = Field(
        default=5,
        description="Seconds a pod must have been ready in its EndpointSlice before a new revision enters the route.",
    )
