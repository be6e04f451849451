package manifests

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
)

// Names of the API.
var (
	// versionForm is the form of versions ("API versioning" of Kubernetes).
	versionForm = regexp.MustCompile(`^v[1-9][0-9]{0,3}((alpha|beta)[1-9][0-9]{0,3})?$`)
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	// labelForm is a DNS label (RFC 1123, section 2.1).
	labelForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// segmentForm is what a path may have between two slashes, which is the form of names of RBAC.
	segmentForm = regexp.MustCompile(`^[^/%\x00-\x20]{1,253}$`)
)

// Annotations and labels that are ours.
const (
	// Prefix begins the annotations that the masters set.
	Prefix = "spore/"
	// PruneKey and PruneNever keep an object that was taken out of the folder.
	PruneKey   = Prefix + "prune"
	PruneNever = "never"
	// setPrefix begins the labels and annotations of ApplySets (KEP-3659).
	setPrefix = "applyset.kubernetes.io/"
)

// groups of kinds that are looked at more closely.
const (
	groupCRD    = "apiextensions.k8s.io"
	groupRBAC   = "rbac.authorization.k8s.io"
	groupCalico = "crd.projectcalico.org"
)

// Check reports what is wrong with the objects of a folder. secret tells whether people put a secret under a name.
func Check(k *check.Checker, docs []*Document, secret func(name string) bool) {
	c := &checker{
		Checker: k, secret: secret, brought: map[groupKind]*kind{}, namespaces: map[string]bool{}, names: k.Unique(),
	}
	for _, name := range systemNamespaces {
		c.namespaces[name] = true
	}
	for _, d := range docs {
		c.note(d)
	}
	if len(docs) > 0 && !k.Services.Has("kubernetes") {
		k.Warningf(check.In(docs[0]),
			"no master applies this: the cluster has no service kubernetes; add it to cluster.yaml, or take manifests/ "+
				"away")
	}
	for _, d := range docs {
		c.object(d)
	}
}

type checker struct {
	*check.Checker
	secret func(string) bool
	// brought are the kinds of the definitions in the folder, namespaces those that are there or are made.
	brought    map[groupKind]*kind
	namespaces map[string]bool
	names      check.Unique
}

// note remembers what an object gives to others.
func (c *checker) note(d *Document) {
	group, _ := split(text(d.Content, "apiVersion"))
	switch name := text(d.Content, "metadata", "name"); {
	case group == "" && text(d.Content, "kind") == "Namespace":
		c.namespaces[name] = true
	case group == groupCRD && text(d.Content, "kind") == "CustomResourceDefinition":
		spec := d.Content["spec"]
		k := &kind{group: text(spec, "group"), name: text(spec, "names", "kind"), scope: clusterWide}
		if text(d.Content, "spec", "scope") == "Namespaced" {
			k.scope = namespaced
		}
		versions, _ := at(d.Content, "spec", "versions").([]any)
		for _, v := range versions {
			if at(v, "served") == true {
				k.versions = append(k.versions, text(v, "name"))
			}
		}
		c.brought[groupKind{k.group, k.name}] = k
	}
}

// object checks one object.
func (c *checker) object(d *Document) {
	for _, key := range slices.Sorted(maps.Keys(d.Content)) {
		if key == "status" && d.Content[key] != nil {
			c.Errorf(check.In(d, "status"), "status is the cluster's to write, not the folder's; remove it")
		}
	}
	k := c.kind(d)
	c.metadata(d)
	if k == nil {
		return
	}
	group, name := k.group, text(d.Content, "metadata", "name")
	ok := c.name(d, k)
	namespace, located := c.namespace(d, k)
	if !ok || !located {
		return
	}
	if reason := Reserved(group, k.name, namespace, name); reason != "" {
		c.Errorf(check.In(d, "metadata", "name"), "%s", reason)
		return
	}
	c.names.Add(check.In(d, "metadata", "name"),
		"the object", describe(group, k.name, namespace, name), "an object stands in the folder once: remove one")
	c.secrets(d, k)
}

// kind finds what kind an object is of; nil after an error.
func (c *checker) kind(d *Document) *kind {
	apiVersion, name := text(d.Content, "apiVersion"), text(d.Content, "kind")
	group, version := split(apiVersion)
	switch {
	case apiVersion == "":
		c.Errorf(check.In(d, "apiVersion"), "the object has no apiVersion; write one, such as v1 or apps/v1")
	case !versionForm.MatchString(version) || strings.Contains(apiVersion, "/") && !check.IsDomain(group):
		c.Errorf(check.In(d, "apiVersion"),
			"apiVersion %q is not a group and a version; write it as v1 or apps/v1", clip(apiVersion))
	case name == "":
		c.Errorf(check.In(d, "kind"), "the object has no kind; write one, such as ConfigMap or Deployment")
	case !kindForm.MatchString(name):
		c.Errorf(check.In(d, "kind"),
			"kind %q is not the name of a kind; write it as ConfigMap or Deployment", clip(name))
	case strings.HasSuffix(name, "List") && d.Has("items"):
		c.Errorf(check.In(d, "kind"),
			"a %s is not an object that is kept; write each of its items as a document of its own, with --- between",
			clip(name))
	default:
		return c.served(d, group, version, name)
	}
	return nil
}

// served compares an apiVersion and kind with what the API server of an image serves and with the definitions of the
// folder.
func (c *checker) served(d *Document, group, version, name string) *kind {
	k := served()[groupKind{group, name}]
	if k == nil {
		k = c.brought[groupKind{group, name}]
	}
	switch {
	case k != nil && k.asked:
		c.Errorf(check.In(d, "kind"), "a %s is a question to the API server, and nothing that is kept; remove it", name)
		return nil
	case k != nil && !slices.Contains(k.versions, version):
		c.Errorf(check.In(d, "apiVersion"),
			"%s has no version %s of %s; write %s", c.by(k), version, name, check.OrWords(apiVersions(k)))
		return nil
	case k != nil:
		return k
	case slices.Contains(groupsServed(), group):
		known := kindsOf(group)
		hint := check.Suggest(name, known)
		if hint == "" {
			hint = "; its kinds: " + strings.Join(known, ", ")
		}
		if others := elsewhere(name); len(others) > 0 {
			hint = "; a " + name + " is of " + check.OrWords(others)
		}
		c.Errorf(check.In(d, "kind"), "the API group of %s has no kind %s%s", join(group, version), name, hint)
		return nil
	}
	hint := ""
	if others := elsewhere(name); len(others) > 0 {
		hint = "; did you mean " + check.OrWords(others) + "?"
	}
	c.Warningf(check.In(d, "kind"),
		"Kubernetes has no kind %s of %s, and no CustomResourceDefinition in manifests/ brings it: it is applied when "+
			"somebody else does%s", name, join(group, version), hint)
	return &kind{group: group, name: name, versions: []string{version}}
}

// by says who has a kind.
func (c *checker) by(k *kind) string {
	if c.brought[groupKind{k.group, k.name}] == k {
		return "the CustomResourceDefinition in manifests/"
	}
	return "Kubernetes of this spore"
}

func apiVersions(k *kind) []string {
	var out []string
	for _, v := range k.versions {
		out = append(out, join(k.group, v))
	}
	if out == nil {
		return []string{"one that it serves (served: true)"}
	}
	return out
}

// ofTheServer are the fields of metadata that the API server fills in.
var ofTheServer = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
	"selfLink", "uid",
}

// metadata checks what every kind has.
func (c *checker) metadata(d *Document) {
	if _, ok := d.Content["metadata"].(map[string]any); !ok {
		c.Errorf(check.In(d, "metadata"), "the object has no metadata with a name; write metadata: {name: NAME}")
		return
	}
	for _, key := range ofTheServer {
		if at(d.Content, "metadata", key) != nil {
			c.Errorf(check.In(d, "metadata", key), "metadata.%s is the API server's to write; remove it", key)
		}
	}
	switch {
	case d.Has("metadata", "generateName"):
		c.Errorf(check.In(d, "metadata", "generateName"),
			"an object that is kept needs a name of its own; write name instead of generateName")
	case d.Has("metadata", "ownerReferences"):
		c.Errorf(check.In(d, "metadata", "ownerReferences"),
			"the uid of an owner is not known before it is there; remove ownerReferences: what the folder has is kept as "+
				"long as the folder has it")
	}
	for _, key := range []string{"labels", "annotations"} {
		c.marks(d, key)
	}
}

// marks checks labels or annotations.
func (c *checker) marks(d *Document, key string) {
	value := at(d.Content, "metadata", key)
	marks, ok := value.(map[string]any)
	if value != nil && !ok {
		c.Errorf(check.In(d, "metadata", key), "%s is not a mapping; write keys with texts", key)
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		p := check.In(d, "metadata", key, name)
		word, isText := marks[name].(string)
		switch {
		case !isText:
			c.Errorf(p, "the value of %q is not a text; put it into quotes", clip(name))
		case strings.HasPrefix(name, setPrefix):
			c.Errorf(p, "%q is what the masters tell objects of this folder by; remove it", clip(name))
		case name == PruneKey && key == "annotations":
			c.OneOf(p, "the value of "+PruneKey, word, []string{PruneNever})
		case strings.HasPrefix(name, Prefix):
			c.Errorf(p,
				"%q is for the masters to write; remove it (%s: %s is there for you)", clip(name), PruneKey, PruneNever)
		}
	}
}

// name checks metadata.name by the rules of the kind.
func (c *checker) name(d *Document, k *kind) bool {
	p, name := check.In(d, "metadata", "name"), text(d.Content, "metadata", "name")
	switch {
	case at(d.Content, "metadata") == nil || d.Has("metadata", "generateName"):
		return false // said already
	case name == "" && at(d.Content, "metadata", "name") != nil:
		c.Errorf(p, "the name is not a text; put it into quotes")
	case name == "":
		c.Errorf(p, "the object has no name; write metadata.name")
	case k.group == groupRBAC && (!segmentForm.MatchString(name) || name == "." || name == ".."):
		c.Errorf(p,
			"the name %q has a character that a name must not have; write up to 253 characters without / and %%",
			clip(name))
	case k.group == groupRBAC:
		return true
	case k.group == "" && k.name == "Namespace" && !labelForm.MatchString(name):
		c.Errorf(p, "the namespace %q is not a DNS label; %s", clip(name), labelRule)
	case !check.IsDomain(name):
		c.Errorf(p,
			"the name %q is not a DNS name; write labels of lower-case letters, digits and - with dots between (RFC "+
				"1123)", clip(name))
	default:
		return true
	}
	return false
}

const labelRule = "write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends (RFC 1123)"

// namespace checks metadata.namespace and returns it. Where the scope of the kind is not known the API server says what
// is missing.
func (c *checker) namespace(d *Document, k *kind) (string, bool) {
	value := at(d.Content, "metadata", "namespace")
	p, name := check.In(d, "metadata", "namespace"), text(d.Content, "metadata", "namespace")
	switch {
	case value != nil && name == "":
		c.Errorf(p, "the namespace is not a text; put it into quotes")
		return "", false
	case name == "" && k.scope == namespaced:
		c.Errorf(check.In(d, "metadata"),
			"a %s lies in a namespace, and none is taken without being named; add metadata.namespace, such as default",
			k.name)
		return "", false
	case name == "":
		return "", true
	case k.scope == clusterWide:
		c.Errorf(p, "a %s lies in no namespace; remove metadata.namespace", k.name)
		return "", false
	case !labelForm.MatchString(name):
		c.Errorf(p, "the namespace %q is not a DNS label; %s", clip(name), labelRule)
		return "", false
	case !c.namespaces[name]:
		known := slices.Sorted(maps.Keys(c.namespaces))
		c.Warningf(p,
			"nothing in manifests/ makes the namespace %q%s; its objects are applied when somebody else does: add a "+
				"Namespace to the folder", clip(name), c.SuggestOf(name, known))
	}
	return name, true
}

// at is a value by its path; nil where there is none.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// text is a text by its path; empty where there is none.
func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}
