//! Options before and between a program's verbs, as in `vault -address https://x kv -mount m get`: rules are about the
//! verbs, so that such a command is looked at with its options behind them as well.

use super::prose::meant;

/// Programs that hand out secrets or variables by a verb.
const PROGRAMS: &[&str] = &[
    "akeyless",
    "ansible-vault",
    "aws",
    "aws-vault",
    "az",
    "bao",
    "berglas",
    "bw",
    "chamber",
    "conjur",
    "docker",
    "doppler",
    "dotenvx",
    "firebase",
    "fly",
    "flyctl",
    "gcloud",
    "gh",
    "glab",
    "gopass",
    "heroku",
    "infisical",
    "k",
    "keepassxc-cli",
    "keyring",
    "kubectl",
    "lpass",
    "nerdctl",
    "netlify",
    "npm",
    "oc",
    "op",
    "pass",
    "pnpm",
    "podman",
    "pulumi",
    "railway",
    "rbw",
    "rclone",
    "secret-tool",
    "security",
    "sops",
    "stripe",
    "supabase",
    "terraform",
    "terragrunt",
    "tmux",
    "tofu",
    "vault",
    "vercel",
    "yarn",
];
/// Options that have a word behind them which is neither a verb nor an object of one: where a program looks, and what it leaves.
const ASIDE: &[(&[&str], &[&str])] = &[
    (&["k", "kubectl", "oc"], &["--cluster", "--context", "--namespace", "-n"]),
    (&["aws"], &["--endpoint-url", "--exclude", "--profile", "--region"]),
    (&["terraform", "terragrunt", "tofu"], &["-chdir"]),
];
/// As many words behind options are tried as a verb and as an option's word.
const MAX_UNCLEAR: usize = 4;

/// The command with its verbs first, in each way in which words behind options may be theirs.
pub(super) fn verbs_first(words: &[String]) -> Vec<Vec<String>> {
    if !words.first().is_some_and(|program| PROGRAMS.contains(&program.as_str())) {
        return Vec::new();
    }
    // What is only said is no verb.
    let words = meant(words);
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    let end = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    let (own, others) = rest.split_at(end);
    if !own.iter().any(|word| is_option(word)) {
        return Vec::new();
    }
    let aside: Vec<&str> = ASIDE
        .iter()
        .filter(|(programs, _)| programs.contains(&program.as_str()))
        .flat_map(|(_, options)| options.iter().copied())
        .collect();
    let is_aside = |word: &str| aside.contains(&word.split('=').next().unwrap_or(word));
    let own: Vec<&String> = own
        .iter()
        .enumerate()
        .filter(|(at, word)| {
            let before = at.checked_sub(1).map(|before| own[before].as_str());
            !is_aside(word) && !before.is_some_and(|word| is_aside(word) && !word.contains('='))
        })
        .map(|(_, word)| word)
        .collect();
    let is_behind = |at: &usize| {
        let before = at.checked_sub(1).map(|before| own[before].as_str());
        !is_option(own[*at]) && before.is_some_and(|word| is_option(word) && !word.contains('='))
    };
    let unclear: Vec<usize> = (0..own.len()).filter(is_behind).take(MAX_UNCLEAR).collect();
    let ways = (0..1_usize << unclear.len()).map(|way| {
        let is_verb = |at: &usize| match unclear.iter().position(|one| one == at) {
            Some(place) => way >> place & 1 == 1,
            None => !is_option(own[*at]) && !is_behind(at),
        };
        let (verbs, options): (Vec<usize>, Vec<usize>) = (0..own.len()).partition(is_verb);
        // What stood behind the verbs stays there.
        let is_last = |at: &&usize| verbs.last().is_some_and(|last| *at > last);
        let (behind, before): (Vec<usize>, Vec<usize>) = options.iter().partition(is_last);
        let each = verbs.iter().copied().chain(behind).chain(before).map(|at| own[at]);
        std::iter::once(program).chain(each).chain(others).cloned().collect::<Vec<_>>()
    });
    ways.filter(|way| *way != words).collect()
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_behind_the_verbs() {
        let ways = |command: &str| {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            verbs_first(&words).iter().map(|way| way.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(
            ways("op --account a read x"),
            ["op read x --account a", "op a read x --account"]
        );
        assert_eq!(ways("vault -address=a read x"), ["vault read x -address=a"]);
        assert_eq!(ways("op --debug read -- x"), ["op read --debug -- x"]);
        assert_eq!(ways("op -a b read -c"), ["op read -c -a b", "op b read -c -a"]);
        assert_eq!(ways("vault -a b kv -m c get x").len(), 4);
        assert_eq!(ways("vault -a b -c d -e f -g h -i j -k l").len(), 15);
        assert_eq!(
            ways("kubectl -n shop get pods -o yaml"),
            ["kubectl get pods -o yaml", "kubectl get pods yaml -o"]
        );
        assert_eq!(ways("terraform -chdir=infra/keys output"), ["terraform output"]);
        assert!(ways("op read x").is_empty() && ways("cat -n .env").is_empty());
    }
}
