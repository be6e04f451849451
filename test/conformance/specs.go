// Package conformance runs those of Kubernetes' own conformance tests that need no pod to run, against a control plane of
// our programs with our flags. What needs kubelets is shown by the end-to-end tests with an image of our own, since
// upstream's tests pull theirs.
package conformance

// selected are regular expressions of the names of the tests. Each has to match one at least.
var selected = []string{
	`\[sig-api-machinery\] AggregatedDiscovery `,
	`\[sig-api-machinery\] API priority and fairness `,
	`\[sig-api-machinery\] CustomResourceDefinition `,
	`\[sig-api-machinery\] CustomResourcePublishOpenAPI `,
	`\[sig-api-machinery\] Discovery `,
	`\[sig-api-machinery\] FieldValidation `,
	`\[sig-api-machinery\] Garbage collector should (orphan RS|delete RS|delete pods created by rc|not be blocked)`,
	`\[sig-api-machinery\] MutatingAdmissionPolicy `,
	`\[sig-api-machinery\] Namespaces \[Serial\] should (apply|patch|ensure that all services)`,
	`\[sig-api-machinery\] ResourceQuota should (be able|create|manage|verify)`,
	`\[sig-api-machinery\] Servers with support for (API chunking should return chunks|Table transformation)`,
	`\[sig-api-machinery\] server version `,
	`\[sig-api-machinery\] ValidatingAdmissionPolicy `,
	`\[sig-api-machinery\] Watchers `,
	`\[sig-apps\] CronJob should support CronJob API operations`,
	`\[sig-apps\] DisruptionController (Listing|should create a PodDisruptionBudget)`,
	`\[sig-apps\] ReplicationController should surface a failure condition`,
	`\[sig-auth\] Certificates API `,
	`\[sig-auth\] ServiceAccounts should (allow opting out|update a|run through|create a serviceAccountToken|guarantee)`,
	`\[sig-auth\] SubjectReview `,
	`\[sig-cli\] Kubectl client Kubectl (api-versions|cluster-info|diff|version) `,
	`\[sig-cli\] Kubectl client Proxy server `,
	`\[sig-instrumentation\] Events( API)? should `,
	`\[sig-network\] API Server should `,
	`\[sig-network\] Endpoints should test the lifecycle`,
	`\[sig-network\] EndpointsController should create and delete`,
	`\[sig-network\] EndpointSlice should (support creating|create and delete)`,
	`\[sig-network\] EndpointSliceMirroring should `,
	`\[sig-network\] Ingress(Class)? API `,
	`\[sig-network\] ServiceCIDR and IPAddress API `,
	`\[sig-network\] Services should (complete a service status|delete a collection|find a service)`,
	`\[sig-node\] ConfigMap should (fail to create|run through|update ConfigMap)`,
	`\[sig-node\] Lease `,
	`\[sig-node\] Node Lifecycle `,
	`\[sig-node\] PodTemplates `,
	`\[sig-node\] RuntimeClass should (reject a Pod|support RuntimeClasses)`,
	`\[sig-node\] Secrets should (fail to create|patch a secret)`,
	`\[sig-scheduling\] LimitRange `,
	`\[sig-storage\] CSIInlineVolumes should `,
	`\[sig-storage\] CSINodes `,
	`\[sig-storage\] CSIStorageCapacity `,
	`\[sig-storage\] PersistentVolumes CSI Conformance `,
	`\[sig-storage\] StorageClasses CSI Conformance `,
	`\[sig-storage\] VolumeAttachment Conformance `,
	`\[sig-storage\] VolumeAttributesClass `,
}

// alone are those that must not run beside others: they look at all that the API serves while others add to it and take
// away.
const alone = `\[Serial\]|Discovery`
