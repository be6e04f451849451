//go:build ignore

// Writes docs/reference/metrics.md.
package main

import (
	"log"
	"os"

	"spore/agent/metrics/reference"
)

func main() {
	if err := os.WriteFile("../../../docs/reference/metrics.md", []byte(reference.Page()), 0o644); err != nil {
		log.Fatal(err)
	}
}
