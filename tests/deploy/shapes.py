"""What the deployment files must look like, as JSON Schemas: the parts of the formats in use."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string", "minLength": 1}
WORDS: Final[Schema] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
QUANTITY: Final[Schema] = {"type": "string", "pattern": "^[0-9]+(m|Mi|Gi)?$"}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}


def shape(required: str = "", /, **properties: Schema) -> Schema:
    """Give an object that has these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


HEALTH: Final = shape(
    test={"type": "array", "items": {"type": "string"}},
    interval=TEXT,
    timeout=TEXT,
    retries={"type": "integer"},
    disable={"const": True},
)
SERVICE: Final = shape(
    "image",
    image=TEXT,
    build=shape("context dockerfile", context=TEXT, dockerfile=TEXT),
    environment=LABELS,
    command=WORDS,
    volumes=WORDS,
    ports=WORDS,
    tmpfs=WORDS,
    read_only={"type": "boolean"},
    cap_drop={"const": ["ALL"]},
    security_opt={"const": ["no-new-privileges:true"]},
    restart={"enum": ["unless-stopped", "no"]},
    stop_grace_period={"type": "string", "pattern": "^[0-9]+s$"},
    init={"const": True},
    deploy=shape(replicas={"type": "integer", "minimum": 1}),
    depends_on={
        "oneOf": [
            WORDS,
            {
                "type": "object",
                "additionalProperties": shape(
                    "condition",
                    condition={
                        "enum": ["service_healthy", "service_completed_successfully"],
                    },
                ),
            },
        ]
    },
    healthcheck=HEALTH,
)
COMPOSE: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object"},
    },
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}

PROBE_GET: Final = shape(
    "path port",
    path={"type": "string", "pattern": "^/"},
    port=TEXT,
    httpHeaders={"type": "array", "items": shape("name value", name=TEXT, value=TEXT)},
)
PROBE: Final = shape(
    "httpGet periodSeconds failureThreshold",
    httpGet=PROBE_GET,
    periodSeconds={"type": "integer"},
    timeoutSeconds={"type": "integer"},
    failureThreshold={"type": "integer"},
)
CONTAINER: Final = shape(
    "name image args securityContext resources volumeMounts",
    name=TEXT,
    image=TEXT,
    args=WORDS,
    ports={
        "type": "array",
        "items": shape("name containerPort", name=TEXT, containerPort={"type": "integer"}),
    },
    envFrom={"type": "array", "items": shape("secretRef", secretRef=shape("name", name=TEXT))},
    securityContext=shape(
        "allowPrivilegeEscalation readOnlyRootFilesystem capabilities",
        allowPrivilegeEscalation={"const": False},
        readOnlyRootFilesystem={"const": True},
        capabilities=shape("drop", drop={"const": ["ALL"]}),
    ),
    volumeMounts={
        "type": "array",
        "items": shape("name mountPath", name=TEXT, mountPath=TEXT, readOnly={"type": "boolean"}),
    },
    startupProbe=PROBE,
    livenessProbe=PROBE,
    readinessProbe=PROBE,
    resources=shape(
        "requests limits",
        requests=shape("cpu memory", cpu=QUANTITY, memory=QUANTITY),
        limits=shape("memory", memory=QUANTITY),
    ),
)
POD: Final = shape(
    "serviceAccountName automountServiceAccountToken securityContext containers volumes",
    serviceAccountName=TEXT,
    automountServiceAccountToken={"const": False},
    restartPolicy={"const": "OnFailure"},
    terminationGracePeriodSeconds={"type": "integer", "minimum": 30},
    securityContext=shape(
        "runAsNonRoot runAsUser runAsGroup seccompProfile",
        runAsNonRoot={"const": True},
        runAsUser={"type": "integer", "minimum": 1000},
        runAsGroup={"type": "integer", "minimum": 1000},
        seccompProfile=shape("type", type={"const": "RuntimeDefault"}),
    ),
    topologySpreadConstraints={"type": "array"},
    containers={"type": "array", "items": CONTAINER, "minItems": 1},
    volumes={"type": "array", "items": {"type": "object", "required": ["name"]}},
)
TEMPLATE: Final = shape(
    "metadata spec", metadata=shape("labels", labels=LABELS, annotations=LABELS), spec=POD
)
SELECTOR: Final = shape("matchLabels", matchLabels=LABELS)
SPECS: Final[dict[str, Schema]] = {
    "Deployment": shape(
        "replicas selector template",
        replicas={"type": "integer", "minimum": 1},
        revisionHistoryLimit={"type": "integer"},
        selector=SELECTOR,
        strategy={"type": "object"},
        template=TEMPLATE,
    ),
    "Job": shape(
        "template",
        backoffLimit={"type": "integer"},
        ttlSecondsAfterFinished={"type": "integer"},
        template=TEMPLATE,
    ),
    "Service": shape("selector ports", selector=LABELS, ports={"type": "array", "minItems": 1}),
    "PodDisruptionBudget": shape(
        "minAvailable selector",
        minAvailable={"type": "integer"},
        unhealthyPodEvictionPolicy={"enum": ["AlwaysAllow", "IfHealthyBudget"]},
        selector=SELECTOR,
    ),
    "HorizontalPodAutoscaler": shape(
        "scaleTargetRef minReplicas maxReplicas metrics",
        scaleTargetRef=shape("apiVersion kind name", apiVersion=TEXT, kind=TEXT, name=TEXT),
        minReplicas={"type": "integer", "minimum": 1},
        maxReplicas={"type": "integer"},
        metrics={"type": "array", "minItems": 1},
        behavior={"type": "object"},
    ),
    "NetworkPolicy": shape(
        "podSelector policyTypes ingress",
        podSelector=SELECTOR,
        policyTypes=WORDS,
        ingress={"type": "array"},
    ),
}
"""The specification of each kind of object in use."""
