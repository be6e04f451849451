package pipeline

import (
	"encoding/json"
	"fmt"
	"os"

	"spore/builder/store"
)

// memo returns what fn makes of the inputs, from the store where this very program made it before. A value is taken from
// its JSON in both cases, so that nobody sees which it was.
func memo[T any](b *build, step string, inputs []string, fn func() (T, error)) (T, error) {
	var value T
	key := store.KeyOf(step, append([]string{b.Tool}, inputs...)...)
	f, err := b.Store.Ensure(key, func(w *os.File) error {
		made, err := fn()
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(made)
	})
	if err != nil {
		return value, err
	}
	if err := f.Close(); err != nil {
		return value, err
	}
	data, err := b.Store.ReadAll(key)
	if err != nil {
		return value, fmt.Errorf("read the %s from the store: %w", step, err)
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return value, b.Store.Damaged(key, fmt.Errorf("read the %s from the store: %w", step, err))
	}
	return value, nil
}
