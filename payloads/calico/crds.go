package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"

	"github.com/projectcalico/calico/libcalico-go/config"
	"sigs.k8s.io/yaml"
)

// printCRDs writes the CustomResourceDefinitions that the module embeds, one JSON document a line, sorted by name. Our own
// agent applies them, and it has no parser of YAML.
func printCRDs(w io.Writer) error {
	// Files of the embedded directory come sorted.
	names, err := fs.Glob(config.CRDFiles, "crd/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := config.CRDFiles.ReadFile(name)
		if err != nil {
			return err
		}
		line, err := definition(data)
		if err != nil {
			return fmt.Errorf("read the definition %s: %w", name, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// definition makes one line of JSON of a YAML document. Decoding it into its type would add that type's empty fields. The
// status, which some files have with empty conditions, is the API server's to write.
func definition(document []byte) ([]byte, error) {
	var fields map[string]any
	if err := yaml.UnmarshalStrict(document, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return json.Marshal(fields)
}
