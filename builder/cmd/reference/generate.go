//go:build ignore

// Generate writes docs/reference/commands.md.
package main

import (
	"log"
	"os"

	"spore/builder/cmd/reference"
	"spore/builder/cmd/root"
)

func main() {
	if err := os.WriteFile("../../../docs/reference/commands.md", reference.Page(root.Command()), 0o644); err != nil {
		log.Fatal(err)
	}
}
