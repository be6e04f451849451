package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const (
	module  = "../.."
	configs = "../../configs"
)

func TestTheCommittedSchemasAreCurrent(t *testing.T) {
	files, err := Generate(module)
	require.NoError(t, err)
	committed, err := os.ReadDir(filepath.Join(configs, ".schema"))
	require.NoError(t, err)
	require.Len(t, committed, len(files))
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(configs, ".schema", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run go generate ./cluster/schema")
	}
	page, err := Markdown(module)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(module, "docs", "reference", "configuration.md"))
	require.NoError(t, err)
	require.Equal(t, string(page), string(got), "run go generate ./cluster/schema")
}

func TestEveryKeyIsExplained(t *testing.T) {
	page, err := Markdown(module)
	require.NoError(t, err)
	for _, line := range strings.Split(string(page), "\n") {
		require.NotRegexp(t, `\|\s*\|$`, line)
	}
}

// yamlFiles lists the examples' files and those of the six-node cluster.
func yamlFiles(t *testing.T) []string {
	var out []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		for _, dir := range []string{configs, "../../examples/edge", "../../examples/kubernetes", "../../examples/plant", "../testdata/six-nodes"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			out = append(out, names...)
		}
	}
	require.Greater(t, len(out), 10)
	return out
}

var serverLine = regexp.MustCompile(`^# yaml-language-server: \$schema=(\S+)\n`)

// schemaOf compiles the schema that a YAML file names in its first line.
func schemaOf(t *testing.T, name string, data []byte) *jsonschema.Schema {
	m := serverLine.FindSubmatch(data)
	require.NotNil(t, m, "%s names its schema in the first line", name)
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(filepath.Dir(name), string(m[1])))
	require.NoError(t, err)
	return s
}

func document(t *testing.T, data []byte) any {
	var v any
	require.NoError(t, yaml.Unmarshal(data, &v))
	b, err := json.Marshal(v)
	require.NoError(t, err)
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
	require.NoError(t, err)
	return v
}

func TestTheConfigurationsFollowTheSchemasThatTheyName(t *testing.T) {
	for _, name := range yamlFiles(t) {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, schemaOf(t, name, data).Validate(document(t, data)))
		})
	}
}

// A folder adds the names of its own roles to those of services and roles.
func TestTheSchemasTakeRolesOfTheUsersOwn(t *testing.T) {
	for _, tc := range []struct{ file, old, new string }{
		{"cluster.yaml", "mqtt, dns]", "mqtt, dns, valkey]"},
		{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, valkey]"},
	} {
		file := path.Join(configs, tc.file)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(data), tc.old)
		own := strings.Replace(string(data), tc.old, tc.new, 1)
		require.NoError(t, schemaOf(t, file, data).Validate(document(t, []byte(own))), tc.new)
	}
}

func TestTheSchemasRefuse(t *testing.T) {
	for name, tc := range map[string]struct{ file, old, new string }{
		"an unknown key":         {"cluster.yaml", "domain:", "doman:"},
		"a missing key":          {"cluster.yaml", "domain: plant.example\n", ""},
		"a wrong type":           {"cluster.yaml", "[10.77.0.0/24]", "10.77.0.0/24"},
		"no name of a role":      {"cluster.yaml", "roles: [kafka-broker]", "roles: [Kafka_Broker]"},
		"no name of a service":   {"cluster.yaml", "mqtt, dns]", "mqtt, dns, Val key]"},
		"no use of a disk":       {"nodes/kafka-01.yaml", "use: kafka", "use: valkey"},
		"an unknown kernel":      {"image.yaml", "kernel: generic", "kernel: other"},
		"a literal password":     {"services/mqtt.yaml", "{secretRef: mqtt-password-sensor}", "hunter2"},
		"an unknown access":      {"services/mqtt.yaml", "access: write}", "access: wirte}"},
		"a number for a sysctl":  {"nodes/edge-01.yaml", `"4096"`, "4096"},
		"a misspelt record":      {"services/dns.yaml", "cname:", "cnam:"},
		"a format without image": {"image.yaml", "formats: [disk, uki]", "formats: [vmdk]"},
	} {
		t.Run(name, func(t *testing.T) {
			file := path.Join(configs, tc.file)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(data), tc.old)
			bad := strings.Replace(string(data), tc.old, tc.new, 1)
			require.Error(t, schemaOf(t, file, data).Validate(document(t, []byte(bad))))
		})
	}
}
