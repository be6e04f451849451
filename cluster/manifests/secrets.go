package manifests

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/check"
)

// Advice says what to do with a secret that stands in manifests/.
const Advice = "make a Secret with it in the running cluster (kubectl create secret generic NAME), and name that by " +
	"secretKeyRef"

// secrets refuses what everybody with the image could read.
func (c *checker) secrets(d *Document, k *kind) {
	if k.group == "" && k.name == "Secret" {
		for _, key := range []string{"data", "stringData"} {
			if at(d.Content, key) != nil {
				c.Errorf(check.In(d, key),
					"the %s of a Secret would be readable in every image; remove it: the masters keep the Secret as it is "+
						"there, and its content is yours to "+
						"write in the running cluster (kubectl patch secret), or that of an operator that fetches it", key)
			}
		}
	}
	c.variables(d, d.Content, nil)
}

// variables refuses a secret in the environment of a container, wherever a kind has one.
func (c *checker) variables(d *Document, v any, path []any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := append(slices.Clone(path), key)
			list, isList := v[key].([]any)
			if key != "env" || !isList {
				c.variables(d, v[key], below)
				continue
			}
			for i, e := range list {
				if name, value := text(e, "name"), text(e, "value"); c.secret(name) && isSecret(value) {
					c.Errorf(check.In(d, append(below, i, "value")...),
						"the value of %s would be readable in every image; %s", clip(name), Advice)
				}
			}
		}
	case []any:
		for i, e := range v {
			c.variables(d, e, append(slices.Clone(path), i))
		}
	}
}

// isSecret tells whether a text that stands where people put secrets can be one: not what is switched on or counted,
// not a variable, and no path of a file.
func isSecret(value string) bool {
	if _, err := strconv.ParseFloat(value, 64); err == nil && len(value) < 6 {
		return false
	}
	switch strings.ToLower(value) {
	case "", "yes", "no", "on", "off", "true", "false":
		return false
	}
	return !strings.HasPrefix(value, "$") && !strings.HasPrefix(value, "/")
}

// Harmless tells whether a text of the form "NAME: VALUE" or a PEM block, which looks like a secret in any other file
// of the folder, is none in a manifest: certificates are public, and many kinds name a Secret by a key of that name.
func Harmless(line string) bool {
	if strings.HasPrefix(line, "-----BEGIN ") {
		return !strings.Contains(line, "PRIVATE KEY")
	}
	i := strings.IndexAny(line, ":=")
	if i < 0 || strings.Contains(line, "://") {
		return false
	}
	name := strings.ToLower(strings.TrimSpace(line[:i]))
	value, _, _ := strings.Cut(strings.TrimSpace(line[i+1:]), " ")
	if strings.HasSuffix(name, "secret") && !strings.HasSuffix(name, "clientsecret") {
		return true
	}
	return !isSecret(strings.Trim(value, `"',}]`))
}
