package kubecluster

import (
	"errors"
	"os"
	"path"
	"regexp"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/rendering"
)

// variable is one of a command line of a unit: ${NAME} anywhere in a word, or $NAME as a word (systemd.service(5), "Command lines").
var variable = regexp.MustCompile(`\$\{(\w+)\}|\$(\w+)`)

// CommandLine are the words of a unit's ExecStart= with the variables of the files that its EnvironmentFile= name: those that the
// agent writes for the node, and those that are rendered. No value of either has blanks within a word.
func CommandLine(unit string, c *facts.Cluster, n *facts.Node, rendered map[string]rendering.File) ([]string, error) {
	line, values, written := "", map[string]string{}, services.Environment(c, n, 0)
	for l := range strings.Lines(unit) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		switch key {
		case "ExecStart":
			line = value
		case "EnvironmentFile":
			text := rendered[path.Base(value)].Data
			if path.Dir(value) == services.EnvironmentDir {
				text = written[path.Base(value)]
			}
			for l := range strings.Lines(string(text)) {
				name, value, _ := strings.Cut(strings.TrimSpace(l), "=")
				values[name] = strings.Trim(value, `"`)
			}
		}
	}
	if line == "" {
		return nil, errors.New("its unit starts nothing")
	}
	var missing []string
	line = variable.ReplaceAllStringFunc(line, func(s string) string {
		m := variable.FindStringSubmatch(s)
		value, ok := values[m[1]+m[2]]
		if !ok {
			missing = append(missing, s)
		}
		return value
	})
	if len(missing) > 0 {
		return nil, errors.New("nobody sets " + strings.Join(missing, ", ") + " of its command line")
	}
	return strings.Fields(line), nil
}

// unitEnvironment is what a unit sets with Environment=, one variable a line.
func unitEnvironment(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
			out = append(out, v)
		}
	}
	return out, nil
}
