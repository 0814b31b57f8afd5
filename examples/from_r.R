# Condense a survey from R: write a file, run tulle, read the release.
library(haven)
library(survey)

set.seed(1)
n <- 1200
people <- data.frame(
  age = sample(18:89, n, replace = TRUE),
  sex = labelled(sample(1:2, n, replace = TRUE), c(male = 1, female = 2), label = "Sex"),
  region = sample(c("north", "south", "west"), n, replace = TRUE)
)
people$trust <- labelled_spss(
  ifelse(runif(n) < .06, 99, pmin(10, pmax(0, round(rnorm(n, 5 + 0.5 * (people$sex == 2), 2))))),
  c("no answer" = 99), na_values = 99, label = "Trust in others"
)
people$anweight <- round((3 - people$age / 40) * runif(n, .7, 1.4), 4)
write_sav(people, "survey.sav")

tulle <- function(...) {
  status <- system2(Sys.getenv("TULLE", "tulle"), shQuote(c(...)))
  if (status > 1) stop("tulle failed")
}
tulle("condense", "survey.sav", "-o", "release.sav", "--k", "10", "--seed", "1",
      "--copies", "2", "--codebook")
tulle("estimate", "release.sav", "mean(age) by region")

release <- read_sav("release.sav")
print(attr(release$sex, "labels"))
for (file in c("survey.sav", "release.sav")) {
  design <- svydesign(~1, weights = ~anweight, data = as.data.frame(zap_labels(read_sav(file))))
  print(svytotal(~region, design))
  print(coef(svyglm(trust ~ sex + age, design)))
}
book <- jsonlite::read_json("release.sav.codebook.json")
print(sapply(book$codeBook$dataDscr$var, function(v) paste(v$name, v$labl)))
