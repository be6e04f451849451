//go:build ignore

// Generate writes the schemas to configs/.schema and the reference page to docs/reference.
package main

import (
	"log"
	"os"
	"path/filepath"

	"spore/cluster/schema"
)

func main() {
	const module = "../.."
	files, err := schema.Generate(module)
	if err != nil {
		log.Fatal(err)
	}
	page, err := schema.Markdown(module)
	if err != nil {
		log.Fatal(err)
	}
	write(filepath.Join(module, "docs", "reference", "configuration.md"), page)
	for name, data := range files {
		write(filepath.Join(module, "configs", ".schema", name), data)
	}
}

func write(name string, data []byte) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		log.Fatal(err)
	}
}
