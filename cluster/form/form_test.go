package form_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/form"
)

func TestAFormIsThatOfItsExpression(t *testing.T) {
	f := form.New(`^v([0-9]+)$`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if !f.MatchString("v17") || f.MatchString("17") {
				t.Error("v17 has the form, and 17 has not")
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"v17", "17"}, f.FindStringSubmatch("v17"))
	require.Nil(t, f.FindStringSubmatch("17"))
}

func TestAnExpressionThatIsNonePanicsWhenItIsUsedAndNotBefore(t *testing.T) {
	f := form.New(`(`)
	require.Panics(t, func() { f.MatchString("") })
}
