package packages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheListHasTwoHundredPackages(t *testing.T) {
	groups, err := List()
	require.NoError(t, err)
	require.Len(t, Entries(groups), 200)
	failing := 0
	for _, g := range groups {
		require.NotEmpty(t, g.Packages, g.Name)
		for _, e := range g.Packages {
			if e.Fails != "" {
				failing++
			}
		}
	}
	require.LessOrEqual(t, failing, 200-Wanted)
}

func TestAPackageMayTakeThePlaceOfOthers(t *testing.T) {
	groups,
		err := read([]byte("- group: Time\n  packages:\n    - ntpdate\n    - {name: chrony, instead: [systemd-timesyncd]}\n" +
		"    - {name: qmail, fails: it asks}\n"))
	require.NoError(t, err)
	require.Equal(t, []Entry{{Name: "ntpdate"}, {Name: "chrony", Instead: []string{"systemd-timesyncd"}},
		{Name: "qmail", Fails: "it asks"}}, Entries(groups))
}

func TestListsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"a group without a name": {"- packages: [a1]\n", "a group has no name"},
		"a package twice": {"- {group: A, packages: [tmux]}\n- {group: B, packages: [tmux]}\n",
			"package tmux is in the groups A and B"},
		"a name of no package":    {"- {group: A, packages: [Tmux!]}\n", `"Tmux!" is not a package name`},
		"another name of none":    {"- {group: A, packages: [{name: tmux, instead: ['']}]}\n", `"" is not a package name`},
		"an unknown key":          {"- {group: A, packages: [{name: tmux, without: [vim]}]}\n", `unknown key "without"`},
		"an unknown key of group": {"- {group: A, package: [tmux]}\n", "field package not found"},
		"a list of lists":         {"- {group: A, packages: [[tmux]]}\n", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestARunOfSomePackagesKeepsTheirGroups(t *testing.T) {
	groups := []Group{{Name: "A", Packages: []Entry{{Name: "vim"}, {Name: "tmux"}}}, {Name: "B",
		Packages: []Entry{{Name: "nginx"}}}}
	some, err := Only(groups, []string{"tmux"})
	require.NoError(t, err)
	require.Equal(t, []Group{{Name: "A", Packages: []Entry{{Name: "tmux"}}}}, some)
	all, err := Only(groups, nil)
	require.NoError(t, err)
	require.Equal(t, groups, all)
	_, err = Only(groups, []string{"tmux", "emacs"})
	require.EqualError(t, err, "package emacs is not in list.yaml")
}
