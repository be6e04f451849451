package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	"spore/cluster/spec"
)

// kubernetes stands for the settings of the service, which lies above this package.
type kubernetes struct{ _ int }

func (*kubernetes) Service() string { return "kubernetes" }

// report are the problems of one file, as a person reads them.
func report(text string) string {
	k := &check.Checker{Cluster: &spec.Cluster{}, Services: spec.Services{&kubernetes{}}}
	docs, faults := Parse("manifests/a.yaml", []byte(text))
	for _, f := range faults {
		k.Report = append(k.Report, check.Problem{File: "manifests/a.yaml", Line: f.Line, Column: f.Column, Message: f.Message})
	}
	Check(k, docs, func(name string) bool { return strings.HasSuffix(strings.ToLower(name), "password") })
	return strings.ReplaceAll(k.Report.Sorted().String(), "manifests/a.yaml:", "")
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"

func TestWhatIsWrongWithAManifest(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no apiVersion":        {"kind: ConfigMap\nmetadata: {name: a, namespace: default}\n", "1:1: error: the object has no apiVersion; write one, such as v1 or apps/v1"},
		"a group alone":        {"apiVersion: apps\nkind: Deployment\nmetadata: {name: a, namespace: default}\n", `1:13: error: apiVersion "apps" is not a group and a version; write it as v1 or apps/v1`},
		"no kind":              {"apiVersion: v1\nmetadata: {name: a, namespace: default}\n", "1:1: error: the object has no kind; write one, such as ConfigMap or Deployment"},
		"a kind in small":      {"apiVersion: v1\nkind: configmap\nmetadata: {name: a, namespace: default}\n", `2:7: error: kind "configmap" is not the name of a kind; write it as ConfigMap or Deployment`},
		"a list":               {"apiVersion: v1\nkind: List\nitems: []\n", "1:1: error: the object has no metadata with a name; write metadata: {name: NAME}\n2:7: error: a List is not an object that is kept; write each of its items as a document of its own, with --- between"},
		"a list of a kind":     {"apiVersion: v1\nkind: ConfigMapList\nmetadata: {}\nitems: []\n", "2:7: error: a ConfigMapList is not an object that is kept"},
		"a former version":     {"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: default}\n", "1:13: error: Kubernetes of this spore has no version v1beta1 of PodDisruptionBudget; write policy/v1"},
		"a kind that is gone":  {"apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: a}\n", "2:7: error: the API group of policy/v1beta1 has no kind PodSecurityPolicy; its kinds: PodDisruptionBudget"},
		"a misspelled kind":    {"apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: a}\n", `2:7: error: the API group of apps/v1 has no kind Deploymnet; did you mean "Deployment"?`},
		"a kind elsewhere":     {"apiVersion: v1\nkind: Deployment\nmetadata: {name: a}\n", "2:7: error: the API group of v1 has no kind Deployment; a Deployment is of apps/v1"},
		"a group that is gone": {"apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}\n", "2:7: warning: Kubernetes has no kind Ingress of extensions/v1beta1, and no CustomResourceDefinition in manifests/ brings it: it is applied when somebody else does; did you mean networking.k8s.io/v1?"},
		"a question":           {"apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nmetadata: {name: a}\n", "2:7: error: a TokenReview is a question to the API server, and nothing that is kept; remove it"},
		"no metadata":          {"apiVersion: v1\nkind: ConfigMap\n", "1:1: error: the object has no metadata with a name; write metadata: {name: NAME}"},
		"no name":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default}\n", "3:11: error: the object has no name; write metadata.name"},
		"a number as a name":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 7, namespace: default}\n", "3:18: error: the name is not a text; put it into quotes"},
		"a generated name":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-, namespace: default}\n", "3:26: error: an object that is kept needs a name of its own; write name instead of generateName"},
		"a wrong name":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_b, namespace: default}\n", `3:18: error: the name "A_b" is not a DNS name; write labels of lower-case letters, digits and - with dots between (RFC 1123)`},
		"a role with a slash":  {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a/b}\n", `3:18: error: the name "a/b" has a character that a name must not have`},
		"a dotted namespace":   {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}\n", `3:18: error: the namespace "a.b" is not a DNS label; write 1 to 63`},
		"no namespace":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "3:11: error: a ConfigMap lies in a namespace, and none is taken without being named; add metadata.namespace, such as default"},
		"a namespace too many": {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a, namespace: b}\n", "3:32: error: a PersistentVolume lies in no namespace; remove metadata.namespace"},
		"a namespace that nobody makes": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: wep}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
			`3:32: warning: nothing in manifests/ makes the namespace "wep"; did you mean "web"?; its objects are applied when somebody else does: add a Namespace to the folder`,
		},
		"twice":              {configMap + "---\n" + configMap, `7:18: error: the object "ConfigMap default/a" exists already, at 3; an object stands in the folder once: remove one`},
		"a status":           {configMap + "status: {a: 1}\n", "4:9: error: status is the cluster's to write, not the folder's; remove it"},
		"a uid":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, uid: x}\n", "3:46: error: metadata.uid is the API server's to write; remove it"},
		"an owner":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, ownerReferences: []}\n", "3:58: error: the uid of an owner is not known before it is there"},
		"labels as a list":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: [a]}\n", "3:49: error: labels is not a mapping; write keys with texts"},
		"a boolean as label": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: {b: true}}\n", `3:53: error: the value of "b" is not a text; put it into quotes`},
		"our label":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: {applyset.kubernetes.io/part-of: x}}\n", `"applyset.kubernetes.io/part-of" is what the masters tell objects of this folder by; remove it`},
		"our annotation":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, annotations: {spore/file: x}}\n", `"spore/file" is for the masters to write; remove it (spore/prune: never is there for you)`},
		"prune: maybe":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, annotations: {spore/prune: maybe}}\n", `3:68: error: the value of spore/prune "maybe" is unknown; write never`},
		"a Secret with data": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: default}\nstringData: {a: b}\n", "4:13: error: the stringData of a Secret would be readable in every image; remove it: the masters keep the Secret as it is there"},
		"a password in env": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec:\n  containers:\n  - name: c\n    env:\n    - {name: DB_PASSWORD, value: hunter2}\n",
			"8:34: error: the value of DB_PASSWORD would be readable in every image; make a Secret with it in the running cluster (kubectl create secret generic NAME), and name that by secretKeyRef",
		},
		"a node":              {"apiVersion: v1\nkind: Node\nmetadata: {name: a}\n", "3:18: error: Node a is made by its kubelet; write labels and taints into nodes/NAME.yaml"},
		"kube-system":         {"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n", "3:18: error: Namespace kube-system is applied by the masters themselves; choose another name"},
		"an account of all":   {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: web}\n", "3:18: error: ServiceAccount web/default is made by Kubernetes itself in each namespace; choose another name, and write that as serviceAccountName of the pods"},
		"cluster DNS":         {"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\n", "3:18: error: Service kube-system/kube-dns is applied by the masters themselves"},
		"a role of ours":      {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'spore:cluster-dns'}\n", "names that begin with spore are the masters' own; choose another name"},
		"a system role":       {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:node'}\n", "names that begin with system: are Kubernetes' own; choose another name"},
		"Calico's pool":       {"apiVersion: crd.projectcalico.org/v1\nkind: IPPool\nmetadata: {name: default-ipv4-ippool}\n", "is applied by the masters themselves; choose another name: the addresses of pods are podCIDRs of cluster.yaml"},
		"Calico's definition": {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ippools.crd.projectcalico.org}\n", "the kinds of crd.projectcalico.org are in every cluster; remove it"},
		"Calico's records":    {"apiVersion: crd.projectcalico.org/v1\nkind: IPAMBlock\nmetadata: {name: a}\n", "IPAMBlock.crd.projectcalico.org a is Calico's own bookkeeping; remove it"},

		"no mapping":       {"- a\n", "1:1: error: this is not an object of Kubernetes; write apiVersion, kind and metadata, and --- between two objects"},
		"a broken second":  {configMap + "---\na: [\n", "5:1: error: not valid YAML: did not find expected node content; indent it like its neighbours"},
		"a tab":            {"a:\n\tb: c\n", "2:2: error: not valid YAML: found character that cannot start any token; put the text into quotes"},
		"an alias":         {configMap + "data: {a: &x b, c: *x}\n", "4:20: error: aliases are not used here: write the value out"},
		"a merge":          {configMap + "data: {<<: {a: b}}\n", "4:8: error: << is not used here: write the keys out"},
		"a key twice":      {configMap + "kind: Secret\n", `4:1: error: the key "kind" is there already, in line 2; remove one`},
		"a number as key":  {configMap + "data: {8080: a}\n", "4:8: error: a key is a text; put it into quotes"},
		"yes":              {configMap + "data: {a: Yes}\n", "4:11: error: Yes is a boolean for kubectl and a text for others; write true or false, or put the text into quotes"},
		"a tag":            {configMap + "data: {a: !!binary aGk=}\n", "4:11: error: the tag !!binary is not used here; write the value alone, a text in quotes"},
		"not a number":     {configMap + "data: {a: .nan}\n", `4:11: error: ".nan" is not a number of JSON; put a text into quotes`},
		"not UTF-8":        {"a: \xff\n", "1:4: error: the byte 0xff is not UTF-8; save the file as UTF-8"},
		"too deep":         {"a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "\n", "this value lies in more than 100 others; no kind of Kubernetes is that deep"},
		"too many objects": {strings.Repeat("---\na: 1\n", 1001), "a file holds at most 1000 objects; put those from here on into another file"},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, report(tt.text), tt.want) })
	}
}

func TestWhatIsRightWithAManifest(t *testing.T) {
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pumps.plant.example, creationTimestamp: null}\nstatus: null\n" +
		"spec:\n  group: plant.example\n  scope: Namespaced\n  names: {kind: Pump, plural: pumps}\n  versions: [{name: v1, served: true}, {name: v2, served: false}]\n"
	for name, text := range map[string]string{
		"nothing":                 "",
		"comments alone":          "# later\n---\n# more\n",
		"an object":               configMap,
		"two":                     configMap + "---\n" + strings.Replace(configMap, "name: a", "name: b", 1) + "---\n",
		"the same name elsewhere": configMap + "---\n" + strings.Replace(configMap, "default", "web", 1) + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
		"a role with a colon":     "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'plant:Readers'}\n",
		"a kind of the folder":    definition + "---\napiVersion: plant.example/v1\nkind: Pump\nmetadata: {name: a, namespace: default}\n",
		"a Secret to be filled":   "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: default}\ntype: Opaque\n",
		"kept when it goes":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, annotations: {spore/prune: never}}\n",
		"a password by reference": "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: [{env: [{name: A_PASSWORD, valueFrom: {secretKeyRef: {name: a, key: b}}}, {name: ALLOW_EMPTY_PASSWORD, value: 'yes'}]}]}\n",
		"quoted words":            configMap + "data: {a: 'yes', b: \"off\", '8080': c, 2024-01-01: 2024-01-02}\n",
		"Calico's policies":       "apiVersion: crd.projectcalico.org/v1\nkind: GlobalNetworkPolicy\nmetadata: {name: a}\n",
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, report(text)) })
	}
	require.Contains(t, report(definition+"---\napiVersion: plant.example/v2\nkind: Pump\nmetadata: {name: a, namespace: default}\n"),
		"the CustomResourceDefinition in manifests/ has no version v2 of Pump; write plant.example/v1")
	require.Contains(t, report(definition+"---\napiVersion: plant.example/v1\nkind: Pump\nmetadata: {name: a}\n"), "a Pump lies in a namespace")
}

func TestAClusterWithoutKubernetesAppliesNothing(t *testing.T) {
	k := &check.Checker{Cluster: &spec.Cluster{}}
	docs, _ := Parse("manifests/a.yaml", []byte(configMap))
	Check(k, docs, func(string) bool { return false })
	require.Equal(t, "manifests/a.yaml:1:1: warning: no master applies this: the cluster has no service kubernetes; add it to cluster.yaml, or take manifests/ away\n", k.Report.String())
}

func TestValuesHaveTheFormOfJSON(t *testing.T) {
	docs, faults := Parse("a", []byte("a: [1, -2, 18446744073709551615, 1.5, 0644, 0x10, true, null, ~, text, '1', 2024-01-01, \"a\\nb\"]\nb: |\n  x\n  y\n"))
	require.Empty(t, faults)
	require.Equal(t, []any{1, -2, uint64(18446744073709551615), 1.5, 420, 16, true, nil, nil, "text", "1", "2024-01-01", "a\nb"}, docs[0].Content["a"])
	require.Equal(t, "x\ny\n", docs[0].Content["b"])
}

func TestALineIsHarmlessInAManifestAlone(t *testing.T) {
	for line, want := range map[string]bool{
		"-----BEGIN CERTIFICATE": true, "-----BEGIN RSA PRIVATE KEY": false, "automountServiceAccountToken: false": true, "password: hunter2": false,
		"token: '12'": true, "tlsSecret: web-tls": true, "clientSecret: abc": false, "password: $(PASSWORD)": true, "http://a:b@": false, "$6$abcdefgh": false,
	} {
		require.Equal(t, want, Harmless(line), line)
	}
}

func TestTheTableOfKindsIsWellFormed(t *testing.T) {
	require.Greater(t, len(served()), 70)
	for line := range strings.Lines(kindsText) {
		var version, name, where, use string
		n, err := fmt.Sscan(line, &version, &name, &where, &use)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Contains(t, []string{"namespaced", "cluster"}, where)
		require.Contains(t, []string{"kept", "asked"}, use)
	}
}
