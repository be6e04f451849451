//go:build e2e

// Package dashboard tests the pages of spore dashboard in a browser.
package dashboard

import (
	"bufio"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"spore/test/browser"
)

// servesVariable has this program serve the pages of a cluster, as a command of its own that can be stopped and killed.
const servesVariable = "SPORE_TEST_DASHBOARD"

//go:embed testdata/axe-core/axe.min.js
var axe string

// chromium is the browser of all tests, each of which has a tab.
var chromium *browser.Browser

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(servesVariable) != "" {
		if err := beCommand(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Most of them wait for what a page is to show.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// Before the tests: two that begin at the same time would begin two browsers.
	var err error
	if chromium, err = browser.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	chromium.End()
	os.Exit(code)
}

// beCommand serves a small cluster. It prints the address, and for each line of the standard input how many goroutines
// there are and how many bytes are in use. It ends with its input.
func beCommand() error {
	p := serving()
	if err := p.serve(); err != nil {
		return err
	}
	fmt.Println(p.address)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(runtime.NumGoroutine(), m.HeapAlloc)
	}
	p.stopped()
	return nil
}
