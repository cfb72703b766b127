package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// notifyGroup are the commands for channels: where berth says what goes wrong.
func (c *caller) notifyGroup() *cobra.Command {
	list := command.New("list [--json]", "list the channels to which berth says what goes wrong", 0, 0)
	list.Aliases = []string{"ls"}
	asJSON := jsonFlag[[]client.Channel](list)
	c.remote(list, func(ctx context.Context, w *way, _ []string) error {
		all, err := w.Channels(ctx)
		if err != nil {
			return err
		}
		if all == nil {
			all = []client.Channel{} // an empty list in JSON, not null
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tNAME\tSERVICE\tTARGET\tSTATE\tAPPS\tKINDS\tLEAST")
			for _, ch := range all {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", ch.ID, cmp.Or(screen.Word(ch.Name), "-"), screen.Word(ch.Service), cmp.Or(screen.Word(ch.Target), "-"),
					channelState(ch), listOf(ch.Apps, "all"), listOf(ch.Kinds, "the usual"), screen.Word(ch.Least))
			}
		})
	})
	test := c.onChannel(command.New("test CHANNEL", "send a message to a channel now, and say whether it has arrived", 1, 1), (*client.Client).TestChannel)
	remove := c.onChannel(command.New("remove CHANNEL", "remove a channel; what waits to be sent there is dropped", 1, 1), (*client.Client).RemoveChannel)
	remove.Aliases = []string{"rm"}
	return command.Group("notify", "have berth say what goes wrong, where you already look", list, c.channelAdd(), c.channelSet(), test,
		c.channelSwitch("on", "send to a channel again, also after berth has stopped", true),
		c.channelSwitch("off", "send nothing to a channel for now", false),
		c.channelSecret(), remove, c.channelDeliveries(), c.sendAgain())
}

// channelState says whether a channel is sent to.
func channelState(ch client.Channel) string {
	switch {
	case ch.Stopped != nil && *ch.Stopped != "":
		return "stopped: " + screen.Word(*ch.Stopped)
	case !ch.On:
		return "off"
	case !ch.Confirmed:
		return "to be confirmed"
	}
	return "on"
}

// channelFlags are the flags of what a channel is sent.
func channelFlags(cmd *cobra.Command) {
	command.Word(cmd, "name", "`NAME` of the channel in lists")
	command.Word(cmd, "to", "`CHAT` of telegram: its number, or @name of a channel")
	command.Word(cmd, "app", "`APP,...` whose messages are sent, by id or name; all means all, the account and the host")
	command.Word(cmd, "kinds", "`KIND,...` that are sent; usual means all but those that must be chosen")
	command.Word(cmd, "least", "least `SEVERITY` that is sent: "+strings.Join(app.Severities, ", "))
	command.Word(cmd, "lang", "`LANGUAGE` of the messages: "+strings.Join(app.Locales, ", "))
	command.Toggle(cmd, "token", "read an access token of ntfy, too, after the target")
	kinds := []string{"usual"}
	for _, kind := range app.NoticeKinds {
		kinds = append(kinds, string(kind))
	}
	command.Choices(cmd, map[string][]string{"least": app.Severities, "lang": app.Locales, "kinds": kinds})
}

// channelFields are the fields that flags of channelFlags set.
func (c *caller) channelFields(ctx context.Context, cmd *cobra.Command, w *way) (f client.ChannelFields, err error) {
	for flag, to := range map[string]**string{"name": &f.Name, "to": &f.Recipient, "least": &f.Least, "lang": &f.Lang} {
		if cmd.Flags().Changed(flag) {
			*to = new(given(cmd, flag))
		}
	}
	if f.Least != nil {
		if _, known := app.ParseSeverity(*f.Least); !known {
			return f, exit.Misused("there is no severity %q%s", *f.Least, exit.DidYouMean(*f.Least, app.Severities, "%s"))
		}
	}
	if cmd.Flags().Changed("kinds") {
		kinds, err := kindsOf(given(cmd, "kinds"))
		if err != nil {
			return f, err
		}
		f.Kinds = &kinds
	}
	if cmd.Flags().Changed("app") {
		apps := []string{}
		if word := given(cmd, "app"); word != "all" {
			if apps, err = c.appIDs(ctx, w, word); err != nil {
				return f, err
			}
		}
		f.Apps = &apps
	}
	return f, nil
}

// kindsOf reads a list of kinds.
func kindsOf(text string) ([]string, error) {
	all := []string{}
	if text == "usual" {
		return all, nil
	}
	known := make([]string, len(app.NoticeKinds))
	for i, kind := range app.NoticeKinds {
		known[i] = string(kind)
	}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); !slices.Contains(known, word) {
			return nil, exit.Misused("there is no kind %q%s", word, exit.DidYouMean(word, known, "%s"))
		}
		all = append(all, word)
	}
	return all, nil
}

// channelAdd is "berth notify add".
func (c *caller) channelAdd() *cobra.Command {
	var services []string
	for _, s := range app.ChannelServices {
		services = append(services, string(s))
	}
	cmd := command.New("add SERVICE [TARGET] [--name NAME] [--to CHAT] [--token] [--app APP,...] [--kinds KIND,...] [--least SEVERITY] [--lang LANGUAGE] [--json]",
		"make a channel at "+strings.Join(services, ", ")+"; without TARGET berth reads it, so that no other user of this machine sees it", 1, 2)
	channelFlags(cmd)
	asJSON := jsonFlag[client.Channel](cmd)
	c.remote(cmd, func(ctx context.Context, w *way, args []string) error {
		if !slices.Contains(services, args[0]) {
			return exit.Misused("there is no service %q%s", args[0], exit.DidYouMean(args[0], services, "%s"))
		}
		f, err := c.channelFields(ctx, cmd, w)
		if err != nil {
			return err
		}
		f.Service = args[0]
		if f.Name == nil {
			f.Name = &f.Service
		}
		if err := c.channelSecrets(cmd, &f, args[1:]); err != nil {
			return err
		}
		return c.printChannel(*asJSON)(w.AddChannel(ctx, f))
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return services, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// channelSecrets sets the target, from the arguments or read, and the access token that
// --token asks for.
func (c *caller) channelSecrets(cmd *cobra.Command, f *client.ChannelFields, target []string) error {
	var prompts []string
	if len(target) == 0 {
		prompts = append(prompts, "target")
	} else {
		f.Target = &target[0]
	}
	if given(cmd, "token") == "true" {
		prompts = append(prompts, "access token")
	}
	secrets, err := c.readSecrets(prompts...)
	if err != nil {
		return err
	}
	for i, prompt := range prompts {
		if secrets[i] == "" {
			return exit.Misused("there is no %s: give it, or a line of the standard input", prompt)
		}
		if prompt == "target" {
			f.Target = &secrets[i]
		} else {
			f.Token = &secrets[i]
		}
	}
	return nil
}

// printChannel prints the answer about a channel that was made or changed: a new secret goes to
// the standard output, what berth says beside it.
func (c *caller) printChannel(asJSON bool) func(client.Channel, string, error) error {
	return func(ch client.Channel, message string, err error) error {
		if err != nil {
			return err
		}
		c.Tell("%s", message)
		switch {
		case asJSON:
			return c.Print(true, ch, nil)
		case ch.Secret != "":
			_, err = fmt.Fprintln(c.Stdout, screen.Escape(ch.Secret, false))
		}
		return err
	}
}

// channelSet is "berth notify set".
func (c *caller) channelSet() *cobra.Command {
	cmd := command.New("set CHANNEL [--name NAME] [--target] [--to CHAT] [--token] [--app APP,...] [--kinds KIND,...] [--least SEVERITY] [--lang LANGUAGE] [--json]",
		"change what is sent to a channel, and where it leads", 1, 1)
	channelFlags(cmd)
	command.Toggle(cmd, "target", "read a new target")
	asJSON := jsonFlag[client.Channel](cmd)
	return c.withChannel(cmd, func(ctx context.Context, w *way, ch client.Channel) error {
		f, err := c.channelFields(ctx, cmd, w)
		if err != nil {
			return err
		}
		kept := []string{ch.Target}
		if given(cmd, "target") == "true" {
			kept = nil
		}
		if err := c.channelSecrets(cmd, &f, kept); err != nil {
			return err
		}
		if kept != nil {
			f.Target = nil
		}
		if f == (client.ChannelFields{}) {
			return exit.Misused("what is to be changed? Give one of the flags")
		}
		return c.printChannel(*asJSON)(w.SetChannel(ctx, ch.ID, f))
	})
}

// channelSwitch is "berth notify on" and "berth notify off".
func (c *caller) channelSwitch(verb, short string, on bool) *cobra.Command {
	return c.onChannel(command.New(verb+" CHANNEL", short, 1, 1), func(cl *client.Client, ctx context.Context, id int64) (client.Outcome, error) {
		_, message, err := cl.SetChannel(ctx, id, client.ChannelFields{On: &on})
		return client.Outcome{Message: message}, err
	})
}

// channelSecret is "berth notify secret".
func (c *caller) channelSecret() *cobra.Command {
	cmd := command.New("secret CHANNEL [--end] [--json]",
		"make a new secret of a webhook and print it, once only; messages are signed with the old one too, until --end ends that", 1, 1)
	end := command.Toggle(cmd, "end", "end the old secret")
	asJSON := jsonFlag[client.Channel](cmd)
	return c.withChannel(cmd, func(ctx context.Context, w *way, ch client.Channel) error {
		if *end {
			return c.said(w.EndSecret(ctx, ch.ID))
		}
		return c.printChannel(*asJSON)(w.TurnSecret(ctx, ch.ID))
	})
}

// channelDeliveries is "berth notify deliveries".
func (c *caller) channelDeliveries() *cobra.Command {
	cmd := command.New("deliveries CHANNEL [--json]", "list the last messages of a channel, and what became of them", 1, 1)
	asJSON := jsonFlag[[]client.Delivery](cmd)
	return c.withChannel(cmd, func(ctx context.Context, w *way, ch client.Channel) error {
		all, err := w.Deliveries(ctx, ch.ID)
		if err != nil {
			return err
		}
		if all == nil {
			all = []client.Delivery{} // an empty list in JSON, not null
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tTIME\tMESSAGE\tSTATE\tTRIES")
			for _, d := range all {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%d\n", d.ID, command.When(d.At), screen.Word(d.Title), deliveryState(d), d.Tries)
			}
		})
	})
}

// deliveryState says what became of a message.
func deliveryState(d client.Delivery) string {
	state := screen.Word(d.State)
	if d.Why != nil && d.State != string(app.DeliverySent) {
		state += ": " + screen.Word(*d.Why)
	}
	if d.NextAt != nil {
		state += ", next try " + command.When(*d.NextAt)
	}
	return state
}

// sendAgain is "berth notify again".
func (c *caller) sendAgain() *cobra.Command {
	cmd := command.New("again DELIVERY", "send a message again that was sent, or failed", 1, 1)
	return c.remote(cmd, func(ctx context.Context, w *way, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return exit.Misused("%q is not the id of a delivery, which is a number: berth notify deliveries CHANNEL shows it", args[0])
		}
		return c.said(w.SendAgain(ctx, id))
	})
}

// onChannel is withChannel for what ends in a sentence.
func (c *caller) onChannel(cmd *cobra.Command, do func(*client.Client, context.Context, int64) (client.Outcome, error)) *cobra.Command {
	return c.withChannel(cmd, func(ctx context.Context, w *way, ch client.Channel) error {
		return c.said(do(w.Client, ctx, ch.ID))
	})
}

// withChannel is remote for a command whose argument names a channel, by its id or its name.
func (c *caller) withChannel(cmd *cobra.Command, do func(context.Context, *way, client.Channel) error) *cobra.Command {
	c.remote(cmd, func(ctx context.Context, w *way, args []string) error {
		all, err := w.Channels(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(ch client.Channel) bool { return strconv.FormatInt(ch.ID, 10) == args[0] })
		if i < 0 {
			i = slices.IndexFunc(all, func(ch client.Channel) bool { return ch.Name == args[0] })
		}
		if i < 0 {
			return exit.NewProblem(exit.NotFound, fmt.Errorf("you have no channel %q", args[0]), "Hint: berth notify list shows your channels.")
		}
		return do(ctx, w, all[i])
	})
	cmd.ValidArgsFunction = c.completeChannels
	return cmd
}

// completeChannels completes the first argument to a channel of the account.
func (c *caller) completeChannels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	w, err := c.way(ctx, cmd, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer w.Close()
	all, _ := w.Channels(ctx) // none where they cannot be read
	var words []string
	for _, ch := range all {
		words = append(words, cobra.CompletionWithDesc(strconv.FormatInt(ch.ID, 10), screen.Word(ch.Name)))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
