//go:build ignore

// Writes the table of docs/alerts.md.
package main

import (
	"log"
	"os"

	"spore/services/metrics/rules"
)

func main() {
	const path = "../../../docs/alerts.md"
	page, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	text, err := rules.Page(string(page))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}
