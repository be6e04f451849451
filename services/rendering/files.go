package rendering

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// Arguments is a file that a unit reads as EnvironmentFile=: ARGUMENTS holds the words of the command line, which systemd
// splits at blanks (systemd.service(5), "Command lines").
func Arguments(words []string) (File, error) {
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$") {
			return File{}, fmt.Errorf("internal error: argument %q cannot stand in an environment file", w)
		}
	}
	return File{Data: []byte("ARGUMENTS=" + strings.Join(words, " ") + "\n"), Mode: 0o644}, nil
}

// JSON is a configuration as JSON, which programs that read YAML take as well.
func JSON(v any, mode fs.FileMode) (File, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return File{}, err
	}
	return File{Data: b.Bytes(), Mode: mode}, nil
}
