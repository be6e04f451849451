package apt

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALineIsFoundByItsFirstWord(t *testing.T) {
	text := "a 1\na-b 2 3\na.b\nab 4\nabc 5\nz 6\n"
	for word, want := range map[string]string{"a": "1", "a-b": "2 3", "a.b": "", "ab": "4", "abc": "5", "z": "6"} {
		rest, ok := lineOf(text, word)
		require.True(t, ok, word)
		require.Equal(t, want, rest, word)
	}
	for _, word := range []string{"", "0", "a+", "aa", "abd", "zz", "1"} {
		_, ok := lineOf(text, word)
		require.False(t, ok, word)
		_, ok = lineOf("", word)
		require.False(t, ok, word)
	}
}

func TestATableHasTheNewestOfEachName(t *testing.T) {
	u := world(t, "bb 1; Provides: vv (= 1), ww\naa 1; Essential: yes", "bb 2; Provides: vv (= 2)\ncc 1; Provides: vv, vv (= 3)")
	require.Equal(t, []string{"aa", "bb", "cc"}, slices.Collect(u.table.names()))
	require.Equal(t, []string{"aa"}, u.table.Essential)
	require.Equal(t, "updates", u.named("bb").Suite)
	require.Equal(t, "Provides: vv (= 2)", u.named("bb").Paragraph[len(u.named("bb").Paragraph)-18:])
	require.Empty(t, u.providing("ww"), "the newest bb does not provide it")
	var versions []string
	for _, v := range u.providing("vv") {
		versions = append(versions, v.by.Name+v.version)
	}
	require.Equal(t, []string{"bb2", "cc", "cc3"}, versions)
	require.Nil(t, u.named("dd"))
	require.NoError(t, u.err)
}

var errUnreadable = errors.New("unreadable")

func TestAPackageThatCannotBeReadIsAnErrorOfTheResolution(t *testing.T) {
	u := world(t, "aa 1; Depends: bb\nbb 1")
	read := u.read
	u.read = func(name string, at place) (*Package, error) {
		if at.offset > 0 {
			return nil, errUnreadable
		}
		return read(name, at)
	}
	_, err := u.resolve([]string{"aa"}, nil, nil)
	require.ErrorIs(t, err, errUnreadable)
	require.ErrorContains(t, err, "read package bb from its index")
}

func TestAPlaceThatHasAnotherPackageIsDamage(t *testing.T) {
	_, err := onlyPackage("aa", entry("bb 1"), "amd64")
	require.ErrorContains(t, err, "without package aa")
	_, err = onlyPackage("aa", entry("aa 1")+"\n"+entry("bb 1"), "amd64")
	require.ErrorContains(t, err, "without package aa")
	_, err = onlyPackage("aa", "", "amd64")
	require.ErrorContains(t, err, "without package aa")
}
