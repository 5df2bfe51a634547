package cli

import (
	"io"

	"github.com/spf13/cobra"
)

func (a *app) completionCommand() *cobra.Command {
	write := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	}
	sub := func(shell, example string) *cobra.Command {
		return &cobra.Command{
			Use:               shell,
			Short:             "Print the completion script for " + shell,
			Example:           example,
			Args:              takes,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE:              func(cmd *cobra.Command, _ []string) error { return write[shell](cmd.Root(), a.Stdout) },
		}
	}
	return group(&cobra.Command{
		Use:   "completion",
		Short: "Print the script by which a shell completes bourn's commands and agents",
		Example: `  source <(bourn completion bash)
  bourn completion zsh >"${fpath[1]}/_bourn"
  bourn completion fish >~/.config/fish/completions/bourn.fish`,
	},
		sub("bash", `  source <(bourn completion bash)
  bourn completion bash >~/.local/share/bash-completion/completions/bourn`),
		sub("zsh", `  bourn completion zsh >"${fpath[1]}/_bourn"`),
		sub("fish", `  bourn completion fish >~/.config/fish/completions/bourn.fish`))
}
