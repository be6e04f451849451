// Command pulse says over HTTP its version, the greeting of its settings, and how often it was started: pulse SETTINGS
// STARTS. Tests of a plant's own roles link it with a version, and give it to the image by its hash.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
)

// version is set by the linker.
var version string

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(settings, starts string) error {
	text, err := os.ReadFile(settings)
	if err != nil {
		return err
	}
	var s struct{ Listen, Greeting string }
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	// A line for each start, of the version that was started.
	f, err := os.OpenFile(starts, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, version); err != nil {
		return err
	}
	// The power may go at any time.
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	all, err := os.ReadFile(starts)
	if err != nil {
		return err
	}
	n := bytes.Count(all, []byte("\n"))
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s from version %s, start %d\n", s.Greeting, version, n)
	})
	return http.ListenAndServe(s.Listen, nil)
}
