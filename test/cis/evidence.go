package cis

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// File is what stat tells of a file.
type File struct {
	// Mode is the permission bits in octal, Owner is user:group.
	Mode, Owner string
}

// Node is what is known of one node.
type Node struct {
	// Arguments are the words of a program's command line without its own name, by the name of its row in services.
	Arguments map[string][]string
	// Configs are configuration files as JSON, by their path.
	Configs map[string]json.RawMessage
	// Files are by their path.
	Files map[string]File
}

// Evidence is what the checks are held against.
type Evidence struct {
	Master, Worker Node
	// Objects are the cluster's objects that we make: without those that Kubernetes makes of itself.
	Objects []Object
}

// Object is an object of the Kubernetes API.
type Object map[string]any

// etcdFlags are the flags that stand in sections of etcd's configuration file (etcd.io, "Configuration options").
var etcdFlags = map[string]string{"client-transport-security": "--", "peer-transport-security": "--peer-"}

// flags are those of a program as words --name=value: its command line, and what its configuration file says in the
// flag's place.
func (n Node) flags(program string) ([]string, error) {
	words := slices.Clone(n.Arguments[program])
	if len(words) == 0 {
		return nil, fmt.Errorf("there is no command line of %s", program)
	}
	path, ok := value(words, "--config")
	if path == "" {
		path, ok = value(words, "--config-file") // etcd's name of it
	}
	if !ok {
		return words, nil
	}
	var config map[string]any
	if err := json.Unmarshal(n.Configs[path], &config); err != nil {
		return nil, fmt.Errorf("configuration file %s of %s: %w", path, program, err)
	}
	if program == "etcd" {
		for section, prefix := range etcdFlags {
			settings, _ := config[section].(map[string]any)
			for name, v := range settings {
				words = append(words, fmt.Sprintf("%s%s=%v", prefix, name, v))
			}
		}
		slices.Sort(words)
	}
	return words, nil
}

// config is the configuration file that a program is given.
func (n Node) config(program string) (json.RawMessage, error) {
	path, _ := value(n.Arguments[program], "--config")
	data, ok := n.Configs[path]
	if !ok {
		return nil, fmt.Errorf("there is no configuration file %q of %s", path, program)
	}
	return data, nil
}

// named is the file that a flag of a program names, parsed.
func (n Node) named(program, flag string, v any) error {
	path, ok := value(n.Arguments[program], flag)
	if !ok {
		return fmt.Errorf("%s has no %s", program, flag)
	}
	if err := json.Unmarshal(n.Configs[path], v); err != nil {
		return fmt.Errorf("%s of %s: %w", flag, program, err)
	}
	return nil
}

// value is that of a flag. One without a value is true.
func value(words []string, flag string) (string, bool) {
	for _, w := range words {
		name, v, has := strings.Cut(w, "=")
		if name != flag {
			continue
		}
		if !has {
			v = "true"
		}
		return v, true
	}
	return "", false
}

// string is the value of a field of an object, by its path.
func (o Object) string(path ...string) string {
	var v any = map[string]any(o)
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	s, _ := v.(string)
	return s
}

// list is a field of an object that holds objects.
func (o Object) list(key string) []Object {
	items, _ := o[key].([]any)
	var out []Object
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// strings is a field of an object that holds strings.
func (o Object) strings(key string) []string {
	items, _ := o[key].([]any)
	var out []string
	for _, i := range items {
		if s, ok := i.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
