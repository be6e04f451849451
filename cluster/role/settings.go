package role

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"spore/cluster/check"
	"spore/cluster/role/setting"
)

// Settings are the settings of a role: what services/NAME.yaml says, read by the types that the role declares.
type Settings struct {
	role string
	keys map[string]setting.Type
	// written is what the file or JSON says.
	written map[string]any
	// known is what read made of it; nodes are looked at by the thousand.
	known atomic.Pointer[map[string]any]
}

// NewSettings returns the settings of a role of which nobody wrote any yet.
func (d *Definition) NewSettings() *Settings { return &Settings{role: d.Name, keys: d.Settings} }

// Service is the name of the role.
func (s *Settings) Service() string { return s.role }

// Free is where package cluster puts what it decodes: no Go type has the keys.
func (s *Settings) Free() *map[string]any {
	s.known.Store(nil)
	return &s.written
}

// Check finds what does not fit its type; file is where the settings were read.
func (s *Settings) Check(k *check.Checker, file check.File) {
	setting.Read(s.keys, s.written, func(path []any, message string) {
		k.Errorf(check.In(file, path...), "%s", message)
	})
}

// read are the settings that were written or have a default. Nobody changes them.
func (s *Settings) read() (map[string]any, error) {
	if known := s.known.Load(); known != nil {
		return *known, nil
	}
	var first error
	out, ok := setting.Read(s.keys, s.written, func(path []any, message string) {
		if first == nil {
			first = fmt.Errorf("settings of %s: %s%s", s.role, pathWords(path), message)
		}
	})
	if !ok {
		return nil, first
	}
	s.known.Store(&out)
	return out, nil
}

func pathWords(path []any) string {
	if len(path) == 0 {
		return ""
	}
	words := make([]string, len(path))
	for i, p := range path {
		words[i] = fmt.Sprint(p)
	}
	return strings.Join(words, ".") + ": "
}

// Values are the settings that a template sees: with defaults, and the empty value for what nobody wrote.
func (s *Settings) Values() (map[string]any, error) {
	out, err := s.read()
	if err != nil {
		return nil, err
	}
	return setting.Complete(s.keys, out), nil
}

// Port is the number that a setting gives; 0 where it gives none.
func (s *Settings) Port(key string) int {
	out, err := s.read()
	if err != nil {
		return 0
	}
	n, _ := out[key].(int64)
	return int(n)
}

// Secrets are the entries of the bundle that a setting names, or all settings where key is empty, each once.
func (s *Settings) Secrets(key string) []string {
	out, err := s.read()
	if err != nil {
		return nil
	}
	if key != "" {
		return setting.Secrets(out[key])
	}
	return setting.Secrets(out)
}

// SecretRefs are the entries of the bundle that the settings name, each once.
func (s *Settings) SecretRefs() []string { return s.Secrets("") }

// SettingSecrets begins what a file names to be given the secrets of a setting.
const SettingSecrets = "settings."

// Readable are the entries that the template of a file may read.
func (d *Definition) Readable(f File, s *Settings) []string {
	var out []string
	for _, name := range f.Secrets {
		if key, ok := strings.CutPrefix(name, SettingSecrets); ok {
			out = append(out, s.Secrets(key)...)
		} else {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// MarshalJSON writes the settings with their defaults.
func (s *Settings) MarshalJSON() ([]byte, error) {
	out, err := s.read()
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote, by the same types.
func (s *Settings) UnmarshalJSON(data []byte) error {
	if s.role == "" {
		return errors.New("internal error: settings of a role are read with its definition")
	}
	s.written = nil
	s.known.Store(nil)
	if err := json.Unmarshal(data, &s.written); err != nil {
		return err
	}
	_, err := s.read()
	return err
}
