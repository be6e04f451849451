package cluster

// digest is of the form that a reference ends in.
const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// kube is an edit of the six-node cluster's settings of Kubernetes.
func kube(settings string) []edit {
	return []edit{{"services/kubernetes.yaml", "version: v1.36", settings}}
}

// badKubernetes holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badKubernetes = []badInput{
	{
		"a version with a patch level",
		kube("version: v1.36.2"),
		[]string{
			`services/kubernetes.yaml:2:10: error: the Kubernetes version "v1.36.2" is not a release line; write it as v1.36`,
		},
	},
	{
		"a version that no image carries",
		kube("version: v1.35"),
		[]string{
			`services/kubernetes.yaml:2:10: error: images of this spore carry Kubernetes v1.36, not v1.35; write v1.36, or leave version out`,
		},
	},
	{
		"an issuer that is none",
		kube("oidc:\n  issuer: http://login.example\n  clientID: a b\n  usernameClaim: e-mail!\n  groupsClaim: \"a b\"\n  prefix: system\n  certificateAuthority: no certificate"),
		[]string{
			`services/kubernetes.yaml:3:11: error: "http://login.example" is not the address of an issuer; write it as https://login.example/realm, without a user, ? or #`,
			`services/kubernetes.yaml:4:13: error: "a b" is not the id of a client; write 1 to 256 characters without spaces`,
			`services/kubernetes.yaml:5:18: error: "e-mail!" is not the name of a claim; write one such as email or groups`,
			`services/kubernetes.yaml:6:16: error: "a b" is not the name of a claim; write one such as email or groups`,
			`services/kubernetes.yaml:7:11: error: the prefix "system" is not one; write lower-case letters and digits with : or # at the end, such as oidc:`,
			`services/kubernetes.yaml:8:25: error: this is not certificates as PEM; write |, and below it the text from -----BEGIN CERTIFICATE----- on`,
		},
	},
	{
		"an issuer that would give names of Kubernetes' own",
		kube("oidc:\n  issuer: https://login.example\n  clientID: kubernetes\n  prefix: \"system:\""),
		[]string{
			`services/kubernetes.yaml:5:11: error: names that begin with system: are given by certificates alone; choose another prefix, such as oidc:`,
		},
	},
	{
		"an issuer that would give the groups of spore kubeconfig",
		kube("oidc:\n  issuer: https://login.example\n  clientID: kubernetes\n  prefix: \"spore:\""),
		[]string{
			`services/kubernetes.yaml:5:11: error: names that begin with spore: are given by certificates alone; choose another prefix, such as oidc:`,
		},
	},
	{
		"people's tokens from the issuer of service accounts",
		kube("oidc:\n  issuer: https://kubernetes.default.svc.cluster.local\n  clientID: kubernetes"),
		[]string{
			`services/kubernetes.yaml:3:11: error: https://kubernetes.default.svc.cluster.local issues the tokens of service accounts; people's are from another issuer`,
		},
	},
	{
		"an issuer without a client",
		kube("oidc:\n  issuer: https://login.example"),
		[]string{
			`services/kubernetes.yaml:3:3: error: the key "clientID" is missing; add it and write a text`,
		},
	},
	{
		"a machine that is too slow",
		kube("slowMachine: 100"),
		[]string{
			`services/kubernetes.yaml:2:14: error: slowMachine 100 is out of bounds; write 0 to 20`,
		},
	},
	{
		"a factor that is not a number",
		kube("slowMachine: true"),
		[]string{
			`services/kubernetes.yaml:2:14: error: slowMachine is not a whole number of at most nine digits; write one such as 1500`,
		},
	},
	{
		"a thousand pods on a node",
		kube("maxPods: 1000"),
		[]string{
			`services/kubernetes.yaml:2:10: error: maxPods 1000 is out of bounds; write 1 to 500`,
		},
	},
	{
		"snapshots every minute, of which one is kept for years",
		kube("snapshots: {every: 1, keep: 1, days: 1000}"),
		[]string{
			`services/kubernetes.yaml:2:20: error: every (minutes) 1 is out of bounds; write 10 to 10080`,
			`services/kubernetes.yaml:2:29: error: keep 1 is out of bounds; write 2 to 1000`,
			`services/kubernetes.yaml:2:38: error: days 1000 is out of bounds; write -1 to 366`,
		},
	},
	{
		"a level of audit that does not exist",
		kube("audit: requests"),
		[]string{
			`services/kubernetes.yaml:2:8: error: the audit level "requests" is unknown; did you mean "request"?`,
		},
	},
	{
		"a pod security standard that does not exist",
		kube("podSecurity: strict"),
		[]string{
			`services/kubernetes.yaml:2:14: error: the pod security standard "strict" is unknown; write privileged, baseline or restricted`,
		},
	},
	{
		"a domain of services that is no DNS name",
		kube("dnsDomain: cluster_local"),
		[]string{
			`services/kubernetes.yaml:2:12: error: dnsDomain "cluster_local" is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as cluster.local`,
		},
	},
	{
		"the nodes' domain for services",
		kube("dnsDomain: plant.example"),
		[]string{
			`services/kubernetes.yaml:2:12: error: the domain of the nodes, plant.example, lies in the domain of Kubernetes services, plant.example, so pods could not look up a node; choose another dnsDomain, such as cluster.local`,
		},
	},
	{
		"an archive outside the folder",
		kube("images: [../app.tar]"),
		[]string{
			`services/kubernetes.yaml:2:10: error: "../app.tar" is not a path inside this folder; write one such as images/app.tar`,
		},
	},
	{
		"an archive that is not there",
		kube("images: [images/app.tar]"),
		[]string{
			"services/kubernetes.yaml:2:10: error: the archive images/app.tar cannot be read: file does not exist; put it there (`skopeo copy` and `docker buildx` write OCI archives), or correct the path",
		},
	},
	{
		"an archive that is a folder",
		[]edit{{"images/app.tar/x", "", "x"}, {"services/kubernetes.yaml", "version: v1.36", "images: [images/app.tar]"}},
		[]string{
			"services/kubernetes.yaml:2:10: error: the archive images/app.tar cannot be read: it is a directory; put it there (`skopeo copy` and `docker buildx` write OCI archives), or correct the path",
		},
	},
	{
		"two archives of one name",
		[]edit{{"a/app.tar", "", "x"}, {"b/app.tar", "", "x"}, {"services/kubernetes.yaml", "version: v1.36", "images: [a/app.tar, b/app.tar]"}},
		[]string{
			`services/kubernetes.yaml:2:21: error: the name of the archive "app.tar" exists already, at services/kubernetes.yaml:2; archives are laid into the image by their names: rename one`,
		},
	},
	{
		"an archive twice",
		[]edit{{"a/app.tar", "", "x"}, {"services/kubernetes.yaml", "version: v1.36", "images: [a/app.tar, a/app.tar]"}},
		[]string{
			`services/kubernetes.yaml:2:21: error: the image "a/app.tar" exists already, at services/kubernetes.yaml:2; remove one`,
		},
	},
	{
		"an image without a registry",
		kube("images: [\"app:1.2" + digest + "\"]"),
		[]string{
			`services/kubernetes.yaml:2:10: error: "app:1.2@sha256:0123456789abcdef0123456789abcdef0123456789abc…" is neither an archive nor a reference; write a path in this folder that ends in .tar, such as images/app.tar, or registry, name, tag and digest, such as registry.example/app:1.2@sha256:…`,
		},
	},
	{
		"a reference that can move",
		kube("images: [\"registry.example/app:1.2\"]"),
		[]string{
			`services/kubernetes.yaml:2:10: error: the reference registry.example/app:1.2 can mean another image tomorrow; add its digest: registry.example/app:1.2@sha256:…`,
		},
	},
	{
		"a reference twice",
		kube("images: [\"registry.example/app:1.2" + digest + "\", \"registry.example/app:1.2" + digest + "\"]"),
		[]string{
			`services/kubernetes.yaml:2:110: error: the image "registry.example/app:1.2@sha256:0123456789abcdef0123456789ab…" exists already, at services/kubernetes.yaml:2; remove one`,
		},
	},
	{
		"a master without an address",
		[]edit{{"cluster.yaml", "    ips: [10.77.0.11]\n", ""}},
		[]string{
			`cluster.yaml:17:5: error: node master-01 runs Kubernetes but has no address here, and etcd, the API server and their certificates need one that never changes; add ips`,
		},
	},
	{
		"a worker without an address",
		[]edit{{"cluster.yaml", "    ips: [10.77.0.12]\n", ""}},
		[]string{
			`cluster.yaml:21:5: error: node worker-01 runs Kubernetes but has no address here, and its kubelet's certificate is approved for addresses of this file alone; add ips`,
		},
	},
	{
		"services that the API server refuses",
		[]edit{{"cluster.yaml", "serviceCIDRs: [10.96.0.0/16]", "serviceCIDRs: [11.0.0.0/8]"}},
		[]string{
			`cluster.yaml:13:18: error: 11.0.0.0/8 is larger than the API server allows; write a prefix length of 12 or more`,
		},
	},
	{
		"services without room for the DNS server",
		[]edit{{"cluster.yaml", "serviceCIDRs: [10.96.0.0/16]", "serviceCIDRs: [10.96.0.0/29]"}},
		[]string{
			`cluster.yaml:13:18: error: 10.96.0.0/29 has no tenth address, which is the cluster's DNS server; write a prefix length of 28 or less, such as 10.96.0.0/16`,
		},
	},
	{
		"services of two families and pods of one",
		[]edit{{"cluster.yaml", "serviceCIDRs: [10.96.0.0/16]", "serviceCIDRs: [10.96.0.0/16, \"fd00:96::/112\"]"}},
		[]string{
			`cluster.yaml:13:32: error: fd00:96::/112 is IPv6, but podCIDRs has no such network; use each address family in both`,
			`cluster.yaml:13:32: error: fd00:96::/112 is IPv6, but the nodes have no such addresses; add a network to nodeSubnets or remove this one`,
		},
	},
	{
		"pods without room for the nodes",
		[]edit{{"cluster.yaml", "podCIDRs: [10.244.0.0/16]", "podCIDRs: [10.244.0.0/24]"}},
		[]string{
			`cluster.yaml:12:14: error: 10.244.0.0/24 holds 4 blocks of 64 addresses, and 3 nodes with up to 110 pods each need 6; write a larger network, such as 10.244.0.0/16`,
		},
	},
	{
		"pods without room for a block",
		[]edit{{"cluster.yaml", "podCIDRs: [10.244.0.0/16]", "podCIDRs: [10.244.0.0/28]"}},
		[]string{
			`cluster.yaml:12:14: error: 10.244.0.0/28 holds 0 blocks of 64 addresses, and 3 nodes with up to 110 pods each need 6; write a larger network, such as 10.244.0.0/16`,
		},
	},
}
