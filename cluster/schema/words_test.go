package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADescriptionSpeaksOfKeys(t *testing.T) {
	keys := map[string]string{"Name": "name", "MinSize": "minSize", "Size": "size", "VLAN": "vlan", "Kubernetes": "kubernetes", "State": "state"}
	for name, tc := range map[string]struct {
		goName, key, text, want string
		values                  []string
	}{
		"what it is":                    {goName: "ByID", key: "byID", text: "ByID is a name.", want: "A name."},
		"what they are":                 {goName: "Labels", key: "labels", text: "Labels are node labels.", want: "Node labels."},
		"what it holds":                 {goName: "Formats", key: "formats", text: "Formats holds the outputs.", want: "The outputs."},
		"what it does":                  {goName: "Encrypt", key: "encrypt", text: "Encrypt encrypts a disk.", want: "Encrypts a disk."},
		"another verb":                  {goName: "Users", key: "users", text: "Users may connect.", want: "`users` may connect."},
		"a value first":                 {goName: "Use", key: "use", text: "Use is osd, or kafka.", want: "osd, or kafka.", values: []string{"osd", "kafka"}},
		"a path first":                  {goName: "MQTT", text: "MQTT is configs/mqtt.yaml.", want: "configs/mqtt.yaml."},
		"a number first":                {goName: "Name", key: "name", text: "Name is 1 to 50 letters.", want: "1 to 50 letters."},
		"a letter that is not ASCII":    {goName: "Name", key: "name", text: "Name is für alle – Size is not.", want: "Für alle – `size` is not."},
		"another field":                 {goName: "MinSize", key: "minSize", text: "MinSize is a number; half of Size when 0.", want: "A number; half of `size` when 0."},
		"another field behind a comma":  {goName: "Size", key: "size", text: "Size, Name and more.", want: "Size, `name` and more."},
		"an acronym is itself":          {goName: "Name", key: "name", text: "Name is that of a VLAN.", want: "That of a VLAN."},
		"its own name is the product's": {goName: "Kubernetes", key: "kubernetes", text: "Kubernetes lets Kubernetes in.", want: "Lets Kubernetes in."},
		"the beginning of a sentence":   {goName: "Name", key: "name", text: "Name is a word. State is bound to it.", want: "A word. State is bound to it."},
		"a longer word":                 {goName: "MinSize", key: "minSize", text: "MinSize is less than Sizes.", want: "Less than Sizes."},
		"no name at all":                {goName: "Size", key: "size", text: "The number.", want: "The number."},
		"no comment":                    {goName: "Size", key: "size"},
	} {
		t.Run(name, func(t *testing.T) {
			got := commented{goName: tc.goName, key: tc.key, text: tc.text, values: tc.values, keys: keys}.description()
			require.Equal(t, tc.want, got)
		})
	}
}

func TestTheReferenceNamesNoGoField(t *testing.T) {
	page, err := Markdown(module)
	require.NoError(t, err)
	for _, line := range strings.Split(string(page), "\n") {
		// Two capitals inside a word are a Go name (MinSize, NodeFile), but for names of products and units.
		line = strings.NewReplacer("CephFS", "", "CoreDNS", "", "DHCPv4", "", "OSDs", "", "MACs", "", "MiB", "").Replace(line)
		require.NotRegexp(t, `\| [A-Z][a-z]*[A-Z]|[ (][A-Z]+[a-z]+[A-Z]`, line)
	}
}
