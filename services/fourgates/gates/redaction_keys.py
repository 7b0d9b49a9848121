"""Forms of keys and tokens that give themselves away by how they begin, by provider."""

from __future__ import annotations

ALNUM, WORD, HEX, URL, BASE64 = "0-9A-Za-z", "0-9A-Za-z_-", "0-9a-fA-F", "0-9A-Za-z_.=~-", "0-9A-Za-z+/=_-"

PREFIXED: tuple[tuple[str, str, int], ...] = (
    # Beginnings that end in `_` or `-` are found in capitals as well.
    # (beginnings, the characters after them, at least how many of those). No boundary before a beginning is asked for: what an
    # invisible character had kept apart is glued together once it is gone.
    ("AKIA ASIA ABIA ACCA", "0-9A-Z", 16),  # AWS access key ids
    ("ABSK", BASE64, 100),  # AWS Bedrock
    ("bedrock-api-key-", BASE64, 20),
    ("AIza", WORD, 35),  # Google API keys
    ("ya29.", URL, 20),  # Google OAuth access tokens
    ("GOCSPX-", WORD, 20),  # Google OAuth client secrets
    ("ghp_ gho_ ghu_ ghs_ ghr_", ALNUM, 30),  # GitHub
    ("github_pat_", WORD, 22),
    ("glpat- glptt- glrt- glcbt- gldt- glft- glsoat- glagent- glimt- gloas- glffct-", URL, 18),  # GitLab
    ("GR1348941", WORD, 20),
    ("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xoxe.xoxb- xoxe.xoxp- xapp-", "0-9A-Za-z%-", 7),  # Slack
    ("hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/", "0-9A-Za-z+/", 20),
    ("discord.com/api/webhooks/ discordapp.com/api/webhooks/", "0-9A-Za-z_/-", 30),
    ("sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", ALNUM, 10),  # Stripe
    ("whsec_", BASE64, 20),
    ("sk-proj- sk-svcacct- sk-admin- sk-service- sk-ant- sk-or- sk-lf-", WORD, 16),  # OpenAI, Anthropic, OpenRouter, Langfuse
    ("hf_ api_org_", ALNUM, 30),  # Hugging Face
    ("gsk_", ALNUM, 40),  # Groq
    ("xai-", ALNUM, 60),
    ("pplx-", ALNUM, 40),  # Perplexity
    ("r8_", ALNUM, 37),  # Replicate
    ("npm_", ALNUM, 30),
    ("pypi-AgE", WORD, 40),
    ("rubygems_", HEX, 40),
    ("dckr_pat_ dckr_oat_", WORD, 20),  # Docker Hub
    ("xkeysib- xsmtpsib-", ALNUM, 40),  # Brevo
    ("doo_v1_ dop_v1_ dor_v1_", HEX, 40),  # DigitalOcean
    ("dapi", HEX, 32),  # Databricks
    ("shpat_ shpca_ shppa_ shpss_ shptka_", HEX, 32),  # Shopify
    ("sq0atp- sq0csp- sq0idp-", WORD, 20),  # Square
    ("EAACEdEose0cBA EAAM EAAC", ALNUM, 80),  # Facebook
    ("ATATT3 ATCTT3", BASE64, 30),  # Atlassian
    ("ATBB", ALNUM, 28),  # Bitbucket
    ("lin_api_ lin_oauth_", ALNUM, 30),  # Linear
    ("ntn_", ALNUM, 40),  # Notion
    ("PMAK-", "0-9a-fA-F-", 50),  # Postman
    ("NRAK- NRII- NRJS- NRBR-", WORD, 19),  # New Relic
    ("glsa_ glc_", BASE64, 30),  # Grafana
    ("hvs. hvb. hvr.", WORD, 24),  # Vault
    (".atlasv1.", BASE64, 50),  # Terraform Cloud
    ("dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "0-9A-Za-z._-", 30),  # Doppler
    ("fo1_ fm1_ fm2_ fm1a_ fm1r_", BASE64, 40),  # Fly.io
    ("HRKU-", WORD, 30),  # Heroku
    ("pscale_tkn_ pscale_oauth_ pscale_pw_", URL, 30),  # PlanetScale
    ("pul-", HEX, 40),  # Pulumi
    ("sntrys_ sntryu_", BASE64, 40),  # Sentry
    ("AGE-SECRET-KEY-1", "0-9A-Z", 50),
    ("ops_eyJ", BASE64, 50),  # 1Password
    ("LTAI", ALNUM, 16),  # Alibaba
    ("AQVN", WORD, 35),  # Yandex
    ("dt0c01. dt0s01.", "0-9A-Z.", 60),  # Dynatrace
    ("duffel_test_ duffel_live_", URL, 40),
    ("EZAK EZTK", ALNUM, 54),  # EasyPost
    ("FLWSECK_TEST- FLWSECK- FLWPUBK_TEST-", ALNUM, 12),  # Flutterwave
    ("fio-u-", URL, 60),  # Frame.io
    ("pnu_", ALNUM, 36),  # Prefect
    ("rdme_", ALNUM, 60),
    ("tk-us-", WORD, 48),  # Scalingo
    ("shippo_live_ shippo_test_", HEX, 40),
    ("tfp_", URL, 50),  # Typeform
    ("CLOJARS_", ALNUM, 60),
    ("figd_", WORD, 38),  # Figma
    ("sbp_", HEX, 40),  # Supabase
    ("AKCp", ALNUM, 60),  # Artifactory
    ("p8e-", ALNUM, 32),  # Adobe
    ("PRIVATEAI- CFPAT-", WORD, 40),
    ("ico-", ALNUM, 32),  # Infracost
    ("sha256~", WORD, 43),  # OpenShift
    ("v1.0-", "0-9a-f-", 160),  # Cloudflare origin CA
    ("s-s4t2ud- s-s4t2af-", HEX, 60),  # 42
    ("sm_aat_ sm_pat_ sm_sat_", ALNUM, 16),  # SettleMint
    ("API-", "0-9A-Z", 26),  # Octopus Deploy
    ("dnkey-", URL, 60),  # Defined Networking
    ("sgp_ slk_", "0-9A-Za-z_", 40),  # Sourcegraph
    ("AccountKey= accountkey= SharedAccessKey=", "0-9A-Za-z+/=", 20),  # Azure
)
