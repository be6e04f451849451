package pki

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/service"
)

func TestASecretHasTheLettersOfItsRow(t *testing.T) {
	u := &updater{o: Options{Random: rand.NewChaCha8([32]byte{5}), Now: begin}}
	for pattern, row := range map[string]service.SecretRow{
		`^[A-Za-z0-9]{24}$`: {Form: service.FormPassword},
		`^[0-9a-f]{64}$`:    {Form: service.FormPassword, Length: 64, Alphabet: "0123456789abcdef"},
		`^[0-9]{200}$`:      {Form: service.FormPassword, Length: 200, Alphabet: "0123456789"},
		`^[ab]{128}$`:       {Form: service.FormPassword, Length: 128, Alphabet: "ab"},
	} {
		seen := map[Hidden]bool{}
		for range 100 {
			v, err := u.makeSecret(Entry{Row: row}, "")
			require.NoError(t, err)
			require.Regexp(t, pattern, string(v))
			require.False(t, seen[v], "it repeats")
			seen[v] = true
		}
	}
}

func TestASecretThatNobodyMakesUp(t *testing.T) {
	u := &updater{o: Options{Random: rand.NewChaCha8([32]byte{6}), Now: begin}, tree: &Tree{Secrets: map[string]*Secret{}}}
	e := Entry{Row: service.SecretRow{Form: service.FormGiven, Given: true}, ID: "license", Name: "license"}
	require.EqualError(t, u.secret(e, "", false, map[string]bool{}), "nobody but you has it; bring it with --secret license=FILE")
	require.NoError(t, u.secret(e, "ABC-123", true, map[string]bool{}))
	require.Equal(t, Hidden("ABC-123"), u.tree.Secrets["license"].Value)
	require.NoError(t, u.secret(e, "", false, map[string]bool{}), "it is kept")
	require.Equal(t, Hidden("ABC-123"), u.tree.Secrets["license"].Value)
}
