package services

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/service"
)

const portsPage = "../docs/ports.md"

// portsTable is the table of docs/ports.md.
func portsTable() string {
	type row struct {
		port    service.Port
		program service.Program
	}
	var rows []row
	for _, p := range slices.Concat(Ours().Programs(), System()) {
		for _, port := range p.Ports {
			rows = append(rows, row{port, p})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.port.First, b.port.First), cmp.Compare(a.port.Protocol, b.port.Protocol))
	})
	at := map[service.Scope]string{service.Everywhere: "every address", service.Node: "the node's addresses", service.Loopback: "127.0.0.1"}
	var b bytes.Buffer
	b.WriteString("| port | at | program | for |\n|---|---|---|---|\n")
	for _, r := range rows {
		number := strings.TrimPrefix(r.port.String(), "127.0.0.1:")
		if name, key, set := strings.Cut(r.port.Setting, "."); set {
			number += fmt.Sprintf(", or `%s` of `services/%s.yaml`", key, name)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", number, at[r.port.At], r.program.Name, r.port.For)
	}
	return b.String()
}

func TestTheDocumentedPortsAreThoseOfTheTable(t *testing.T) {
	page, err := os.ReadFile(portsPage)
	require.NoError(t, err)
	begin := bytes.Index(page, []byte("| port |"))
	require.Greater(t, begin, 0)
	end := begin + bytes.Index(append(page[begin:], "\n\n"...), []byte("\n\n")) + 1
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(portsPage, slices.Concat(page[:begin], []byte(portsTable()), page[min(end, len(page)):]), 0o644))
		return
	}
	require.Equal(t, portsTable(), string(page[begin:end]), "UPDATE=1 go test ./services writes it anew")
}
