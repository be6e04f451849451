package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASecondRunHasTheArgumentsOfTheFirst(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"none but a package", []string{"./a"},
			[]string{"-count=1", "-timeout", "1m0s", "-run", "^(TestA|TestB)$", "m/a"}},
		{"those of boots", []string{"-count=1", "-tags", "e2e", "-parallel", "6", "-v", "-timeout", "60m", "-skip", "TestK",
			"./a"},
			[]string{"-count=1", "-v", "-tags", "e2e", "-parallel", "6", "-skip", "TestK", "-timeout", "1m0s",
				"-run", "^(TestA|TestB)$", "m/a"}},
		{"another folder, and values behind =",
			[]string{"-C", "b", "--tags=x", "-p=1", "-race", "-run", "TestA", "-json", "./...", "./a"},
			[]string{"-C", "b", "-count=1", "-tags", "x", "-p=1", "-race", "-timeout", "1m0s",
				"-run", "^(TestA|TestB)$", "m/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, ParseArgs(c.args).Of("m/a", []string{"TestA", "TestB"}, time.Minute))
		})
	}
	require.Equal(t, 10*time.Minute, ParseArgs(nil).Timeout, "that of go test")
	require.Equal(t, time.Hour, ParseArgs([]string{"-timeout", "60m"}).Timeout)
	require.Equal(t, []string{"./...", "./a"}, ParseArgs([]string{"-race", "./...", "-p", "1", "./a"}).Packages)
}

func TestRunAndSkipChooseTests(t *testing.T) {
	for _, c := range []struct {
		run, skip, test string
		want            bool
	}{
		{"", "", "TestA", true},
		{"TestA|TestB", "", "TestB", true},
		{"TestA", "", "TestB", false},
		{"TestA/part", "", "TestA", true},
		{"", "TestA", "TestA", false},
		{"", "TestA", "TestB", true},
		{"", "TestA/part", "TestA", true},
		{"(", "", "TestA", false},
	} {
		require.Equal(t, c.want, Args{Run: c.run, Skip: c.skip}.chosen(c.test), "%+v", c)
	}
}
