package page

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/choice/call"
)

// chooser is a machine that matches no node, and a person who chooses one.
func chooser() *Model {
	m := unmatched()
	m.Hardware = &Hardware{Rows: [][2]string{{"maker", "ACME"}, {"model", "Box 9"}, {"firmware", "ACME 1.7 03/01/2026"}}}
	m.Choice = &call.View{Nodes: []call.Node{
		{Name: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, For: []string{"serial number sn-1"}},
		{Name: "spare-01", Roles: []string{"worker"}},
		{Name: "edge-02", Roles: []string{"dns-server"}, Against: []string{"card 52:54:00:77:00:0b and 1 more"}},
	}}
	return m
}

// TestPagesOfTheChoice compares them with their text in testdata; UPDATE=1 writes it.
func TestPagesOfTheChoice(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"list":    func(m *Model) { m.Choosing.At = 1 },
		"found":   func(m *Model) { m.Choosing.Filter = "EDGE" },
		"asked":   func(m *Model) { m.Choice, m.Asked = nil, true },
		"confirm": func(m *Model) { m.Choosing.Node, m.Choosing.Typed = "edge-01", "edge" },
		"asks":    func(m *Model) { m.Choosing.Node, m.Choice.Enroll = "edge-01", "http://10.77.0.2:8080/" },
		"careful": func(m *Model) {
			m.Choosing.Node, m.Choosing.Typed, m.Choosing.Said = "edge-02", "edge-01", "that is not the name edge-02"
			m.Choice.Bundle, m.Status.Firmware = true, &Firmware{SecureBoot: true}
		},
		"done": func(m *Model) {
			m.Choosing = Choosing{Node: "edge-01", Typed: "edge-01", Done: true,
				Said: "this machine is edge-01 from its next start on, which is now"}
		},
		"refused": func(m *Model) {
			m.Choice.Refused = "this machine was started from a disc, which cannot be written to: start it from a stick"
		},
		"undo": func(m *Model) {
			m.Choice = &call.View{Chosen: "edge-01", Refused: "this machine is edge-01, by esp: it has its node"}
		},
		"stays": func(m *Model) {
			m.Choice = &call.View{Chosen: "edge-01", Refused: "this machine is edge-01, by esp: it has its node",
				Stays: "edge-01 has state here, on S1: erase it with `spore reset`, or write the medium again"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := chooser()
			change(m)
			g, _ := m.Render(View{Page: ChoicePage}, 80, 24)
			file := "testdata/choice-" + name + "-80x24.txt"
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(file, []byte(g.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), g.String())
		})
	}
}

func TestAListOfAThousandNodesShowsTheMarkedOne(t *testing.T) {
	m := chooser()
	m.Choice.Nodes = nil
	for i := range 1000 {
		m.Choice.Nodes = append(m.Choice.Nodes, call.Node{Name: fmt.Sprintf("node-%04d", i), Roles: []string{"worker"}})
	}
	began := time.Now()
	for _, at := range []int{0, 1, 17, 500, 998, 999, 5000} {
		m.Choosing.At = at
		g, _ := m.Render(View{Page: ChoicePage}, 80, 24)
		fits(t, g.String(), 80, 24)
		require.Contains(t, g.String(), fmt.Sprintf("> [   ] node-%04d ", min(at, 999)))
		require.Contains(t, g.String(), fmt.Sprintf("%d of 1000 nodes", min(at, 999)+1))
		require.NotContains(t, g.String(), "lines below", "it needs no scrolling")
	}
	require.Less(t, time.Since(began), 5*time.Second)
	m.Choosing.At = 0
	m.Move(-1)
	require.Equal(t, 0, m.Choosing.At)
	m.Move(5000)
	require.Equal(t, 999, m.Choosing.At)
	m.Choosing.Filter = "node-07"
	require.Len(t, m.Found(), 100)
	require.False(t, m.Take(), "the mark is beyond what is found")
	m.Move(1)
	require.True(t, m.Take())
	require.Equal(t, "node-0799", m.Choosing.Node)
	m.Choosing = Choosing{Filter: "nothing"}
	g, _ := m.Render(View{Page: ChoicePage}, 80, 24)
	require.Contains(t, g.String(), "no node has this in its name or roles")
	require.False(t, m.Take())
}

func TestOnlyTheWholeNameConfirms(t *testing.T) {
	m := chooser()
	_, problem := m.Confirmed()
	require.NotEmpty(t, problem, "nothing was taken from the list")
	require.True(t, m.Take())
	for _, typed := range []string{"", "edge", "edge-011", "EDGE-01", "edge-02"} {
		m.Choosing.Typed = typed
		_, problem := m.Confirmed()
		require.Contains(t, problem, "not the name edge-01", typed)
	}
	m.Choosing.Typed = "edge-01"
	c, problem := m.Confirmed()
	require.Empty(t, problem)
	require.Equal(t, call.Call{Do: call.Choose, Node: "edge-01", Confirm: "edge-01"}, c)
	m.Choice = &call.View{Chosen: "edge-01", Refused: "it has its node"}
	c, problem = m.Confirmed()
	require.Empty(t, problem)
	require.Equal(t, call.Undo, c.Do)
	m.Choice.Refused = "a disc"
	m.Choice.Chosen = ""
	require.False(t, m.Picks())
	m.Choosing = Choosing{}
	require.False(t, m.Take(), "nothing can be chosen")
}

func TestWhatComesFromElsewhereDrawsNothingOnThePageOfTheChoice(t *testing.T) {
	for _, bad := range hostile {
		for _, size := range [][2]int{{80, 24}, {1, 1}, {20, 5}, {240, 67}} {
			m := chooser()
			m.Hardware.Rows[1][1], m.Status.Seen.Serial, m.Status.Seen.MACs = bad, bad, []string{bad}
			m.Choice.Nodes = append([]call.Node{{Name: bad, Roles: []string{bad}, Against: []string{bad}}}, m.Choice.Nodes...)
			g, _ := m.Render(View{Page: ChoicePage}, size[0], size[1])
			fits(t, g.String(), size[0], size[1])
			if size[0] == 80 {
				require.Contains(t, g.String(), "[yes] edge-01")
				require.Contains(t, g.String(), "1 of 4 nodes")
			}
			m.Choosing = Choosing{Node: bad, Typed: bad, Said: bad}
			g, _ = m.Render(View{Page: ChoicePage}, size[0], size[1])
			fits(t, g.String(), size[0], size[1])
			if size[0] == 80 {
				require.Contains(t, g.String(), "Enter chooses")
			}
			m.Choice = &call.View{Chosen: bad, Refused: bad}
			g, _ = m.Render(View{Page: ChoicePage}, size[0], size[1])
			fits(t, g.String(), size[0], size[1])
			m.Choice.Stays, m.ChoiceProblem = bad, bad
			g, _ = m.Render(View{Page: ChoicePage}, size[0], size[1])
			fits(t, g.String(), size[0], size[1])
			m.Choice = nil
			g, _ = m.Render(View{Page: ChoicePage}, size[0], size[1])
			fits(t, g.String(), size[0], size[1])
		}
	}
}
