package services

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/service"
)

// A row speaks of its own roles and programs: of others it would be forgotten when they change.
func TestARowSpeaksOfItsOwnRolesAndPrograms(t *testing.T) {
	words := map[string]bool{}
	for _, s := range Ours().All() {
		t.Run(s.Name, func(t *testing.T) {
			require.NotEmpty(t, s.Roles)
			require.NotEmpty(t, s.Programs)
			require.Equal(t, s.Name, s.Settings().Service())
			require.NotSame(t, s.Settings(), s.Settings())
			role := func(name string) bool {
				return slices.ContainsFunc(s.Roles, func(r service.Role) bool { return r.Name == name })
			}
			program := func(is func(p service.Program) bool) bool { return slices.ContainsFunc(s.Programs, is) }
			named := func(name string) bool { return program(func(p service.Program) bool { return p.Name == name }) }
			for _, r := range s.Roles {
				require.True(t, r.StandIn == "" || role(r.StandIn), r.Name)
			}
			for name := range s.Environment {
				require.True(t, named(name), name)
			}
			for _, r := range s.Renewal {
				require.True(t, named(r.Program), r.Program)
				require.True(t, r.Turns == "" || role(r.Turns), r.Turns)
			}
			for _, q := range s.Quorums {
				require.True(t, program(func(p service.Program) bool { return p.Unit == q.Unit }), q.Unit)
				require.NotEmpty(t, q.Data, q.Name)
			}
			for use, name := range s.Disks {
				require.True(t, role(name), "%s of %s", name, use)
			}
			for name := range s.Memory {
				require.True(t, role(name), name)
			}
			for _, l := range s.Live {
				for _, unit := range l.Units {
					require.True(t, program(func(p service.Program) bool { return p.Unit == unit }), unit)
				}
				require.True(t, len(l.Units) > 0 || l.Why != "", l.Path)
			}
			for _, r := range s.Leaves {
				// The authority of the nodes' API is nobody's, and whoever asks the API has a certificate of it.
				require.True(t, r.Authority == "agent" ||
					slices.ContainsFunc(s.Authorities, func(a service.AuthorityRow) bool { return a.Name == r.Authority }), r.Name)
			}
			for _, p := range s.Programs {
				for _, port := range p.Ports {
					name, key, set := strings.Cut(port.Setting, ".")
					require.True(t, !set || name == s.Name && s.Port != nil && key != "", "%s of %s", port, p.Name)
				}
			}
			for word := range s.Words {
				require.Regexp(t, `^\{[a-z-]+\}$`, word)
				require.False(t, words[word], word)
				words[word] = true
			}
		})
	}
	_, ok := Ours().Find("sendmail")
	require.False(t, ok)
}

func TestTheFormatChangesWithTheSettingsOfAService(t *testing.T) {
	type before struct{ Port int }
	type after struct{ Port string }
	require.NotEqual(t, formatOf("mqtt", &before{}), formatOf("mqtt", &after{}))
	require.NotEqual(t, formatOf("mqtt", &before{}), formatOf("dns", &before{}))
}

// A program that is given an entry that no row makes would wait for ever.
func TestEveryEntryOfAProgramIsMadeBySomeRow(t *testing.T) {
	made := map[string]bool{"agent-certificate": true, "agent-key": true} // Those of package pki, which every node has.
	for _, s := range Ours().All() {
		for _, a := range s.Authorities {
			made[a.Name+"-ca-key"], made[a.Key] = true, true
		}
		for _, l := range s.Leaves {
			made[cmp.Or(l.Certificate, l.Name+"-certificate")], made[cmp.Or(l.Key, l.Name+"-key")] = true, true
		}
		for _, e := range s.Secrets {
			made[cmp.Or(e.Entry, e.Name)] = true
		}
	}
	made["agent-ca-key"] = true
	for _, p := range Ours().Programs() {
		for _, entry := range p.Secrets {
			require.True(t, made[entry], "%s is given %s", p.Name, entry)
		}
	}
}
