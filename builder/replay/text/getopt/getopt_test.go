package getopt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
)

func spec() Spec {
	return Spec{Short: "ab:i::", Long: map[string]rune{"all": 'a', "base": 'b', "in": 'i', "only": 'O',
		"other": 'P'}, LongValues: "O"}
}

func TestOptionsAndOperandsComeInAnyOrder(t *testing.T) {
	for _, c := range []struct {
		args     []string
		options  []Option
		operands []string
	}{
		{[]string{"x", "-a", "y"}, []Option{{'a', ""}}, []string{"x", "y"}},
		{[]string{"-ab", "v"}, []Option{{'a', ""}, {'b', "v"}}, nil},
		{[]string{"-abv"}, []Option{{'a', ""}, {'b', "v"}}, nil},
		{[]string{"-i", "x"}, []Option{{'i', ""}}, []string{"x"}},
		{[]string{"-i.bak", "x"}, []Option{{'i', ".bak"}}, []string{"x"}},
		{[]string{"--in", "x"}, []Option{{'i', ""}}, []string{"x"}},
		{[]string{"--in=y", "x"}, []Option{{'i', "y"}}, []string{"x"}},
		{[]string{"--base=v", "--base", "w"}, []Option{{'b', "v"}, {'b', "w"}}, nil},
		{[]string{"--al", "--onl=1"}, []Option{{'a', ""}, {'O', "1"}}, nil},
		{[]string{"--", "-a"}, nil, []string{"-a"}},
		{[]string{"-", "x"}, nil, []string{"-", "x"}},
	} {
		options, operands, err := Parse(&command.Call{Name: "c", Args: c.args}, spec())
		require.NoError(t, err, "%q", c.args)
		require.Equal(t, c.options, options, "%q", c.args)
		require.Equal(t, c.operands, operands, "%q", c.args)
	}
}

func TestFirstStopsAtTheFirstOperand(t *testing.T) {
	s := spec()
	s.First = true
	options, operands, err := Parse(&command.Call{Name: "c", Args: []string{"-a", "x", "-z"}}, s)
	require.NoError(t, err)
	require.Equal(t, []Option{{'a', ""}}, options)
	require.Equal(t, []string{"x", "-z"}, operands)
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, c := range []struct{ want, arg string }{
		{"the option -z is not replayed", "-z"}, {"the option -: is not replayed", "-:"},
		{"the option --zet is not replayed", "--zet"},
		{"the option --o is not replayed", "--o"}, {"the option --all=x is not replayed", "--all=x"},
		{"the option -b has no value", "-b"}, {"the option --base has no value", "--base"},
	} {
		_, _, err := Parse(&command.Call{Name: "c", Args: []string{c.arg}}, spec())
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-ab", "--base=x", "y")
	f.Add("-\xff", "--", "-i")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		_, operands, err := Parse(&command.Call{Name: "c", Args: []string{a, b, c}}, spec())
		require.True(t, err != nil || len(operands) <= 3)
	})
}
