"""Words for illnesses, medicines and treatments, as a group of their own.

A word names a subject, not a person: a policy that keeps health data here errs on that side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pointsman.signals.hit import Found
from pointsman.signals.named import Word
from pointsman.signals.scanned import Scanned


class Terms(NamedTuple):
    """Words of one kind; the weak ones mean something else as well and need a word beside them."""

    kind: str
    reason: str
    strong: str
    weak: str = ""


TERMS = (
    Terms(
        "diagnosis",
        "the name of an illness or condition",
        "diabetes|diabetic|type 1 diabetes|type 2 diabetes|hiv|hiv positive|hiv-positive"
        "|hepatitis|tuberculosis|leukaemia|leukemia|lymphoma|melanoma|carcinoma|sarcoma"
        "|cancer|breast cancer|lung cancer|prostate cancer|bowel cancer|tumour|tumor"
        "|metastases|metastatic|epilepsy|epileptic|schizophrenia|schizophrenic"
        "|bipolar disorder|anorexia|bulimia|eating disorder|ptsd|adhd|autism|autistic"
        "|dementia|alzheimer's|alzheimer|alzheimers|parkinson's|parkinson's disease"
        "|multiple sclerosis|asthma|asthmatic|copd|pneumonia|bronchitis|hypertension"
        "|hypothyroidism|hyperthyroidism|arrhythmia|atrial fibrillation|myocardial infarction"
        "|heart attack|heart failure|heart disease|angina|thrombosis|pulmonary embolism"
        "|embolism|anaemia|anemia|haemophilia|hemophilia|cirrhosis|pancreatitis|crohn's"
        "|crohn's disease|ulcerative colitis|coeliac disease|celiac disease"
        "|irritable bowel syndrome|gastritis|appendicitis|kidney failure|renal failure"
        "|kidney disease|kidney stones|endometriosis|miscarriage|pregnant|pregnancy"
        "|infertility|erectile dysfunction|chlamydia|gonorrhoea|gonorrhea|syphilis|herpes"
        "|psoriasis|eczema|lupus|arthritis|rheumatoid arthritis|osteoporosis|fibromyalgia"
        "|sciatica|migraine|migraines|glaucoma|sepsis|meningitis|malaria|down syndrome"
        "|down's syndrome|cystic fibrosis|sickle cell|muscular dystrophy|anxiety disorder"
        "|panic attacks|panic disorder|major depressive disorder|clinical depression|suicidal"
        "|suicidal thoughts|self-harm|alcoholism|alcohol dependence|substance abuse"
        "|opioid addiction|drug addiction|personality disorder|borderline disorder"
        "|sexually transmitted|insomnia|sleep apnoea|sleep apnea|tinnitus|shingles|gout"
        "|brustkrebs|lungenkrebs|darmkrebs|prostatakrebs|bluthochdruck|schlaganfall"
        "|herzinfarkt|epilepsie|schizophrenie|multiple sklerose|lungenentz\u00fcndung"
        "|schwanger|schwangerschaft|fehlgeburt|rheuma|arthrose|migr\u00e4ne|demenz"
        "|bandscheibenvorfall|magersucht|essst\u00f6rung|suizidgedanken|zuckerkrank"
        "|leuk\u00e4mie|tumorerkrankung|krebserkrankung|hiv-infektion|angstst\u00f6rung"
        "|diab\u00e8te|diab\u00e9tique|\u00e9pilepsie|sida|schizophr\u00e9nie"
        "|scl\u00e9rose en plaques|crise cardiaque|infarctus|leuc\u00e9mie|asthme|grossesse"
        "|h\u00e9patite|d\u00e9mence|c\u00e1ncer|esquizofrenia|epilepsia|embarazada|embarazo"
        "|hipertensi\u00f3n|infarto|asma|demencia|leucemia|esclerosis m\u00faltiple"
        "|tuberculosis|cancro|tumore|epilessia|ipertensione|diabete|incinta|gravidanza"
        "|sclerosi multipla|borstkanker|longkanker|kanker|suikerziekte|hartaanval|beroerte"
        "|zwanger|hoge bloeddruk|dementie|longontsteking",
        "stroke|depression|depressed|aids|anxiety|cataract|concussion|ocd|covid|covid-19"
        "|relapse|seizure|seizures|infection|overdose|burnout|abortion|addiction|disability"
        "|allergic|allergy|obesity|krebs|depression|depressionen|depressiv|allergie|sucht"
        "|d\u00e9pression|enceinte|depresi\u00f3n|depressione|depressie|avortement|aborto",
    ),
    Terms(
        "medication",
        "the name of a medicine",
        "metformin|insulin|ibuprofen|paracetamol|acetaminophen|amoxicillin|penicillin"
        "|atorvastatin|simvastatin|rosuvastatin|lisinopril|ramipril|enalapril|amlodipine"
        "|bisoprolol|metoprolol|losartan|valsartan|warfarin|apixaban|rivaroxaban|clopidogrel"
        "|omeprazole|pantoprazole|levothyroxine|prednisone|prednisolone|salbutamol|albuterol"
        "|sertraline|fluoxetine|citalopram|escitalopram|paroxetine|venlafaxine|duloxetine"
        "|mirtazapine|bupropion|quetiapine|olanzapine|risperidone|aripiprazole|clozapine"
        "|haloperidol|lamotrigine|valproate|carbamazepine|levetiracetam|gabapentin|pregabalin"
        "|tramadol|oxycodone|hydrocodone|morphine|fentanyl|methadone|buprenorphine|naloxone"
        "|diazepam|lorazepam|alprazolam|clonazepam|zolpidem|methylphenidate|ritalin|adderall"
        "|lisdexamfetamine|tamoxifen|letrozole|methotrexate|adalimumab|rituximab|trastuzumab"
        "|imatinib|ozempic|semaglutide|viagra|sildenafil|tadalafil|prozac|zoloft|xanax|valium"
        "|lexapro|lipitor|truvada|tenofovir|emtricitabine|dolutegravir|hydroxychloroquine"
        "|doxycycline|ciprofloxacin|azithromycin|furosemide|spironolactone"
        "|hydrochlorothiazide|allopurinol|colchicine|sumatriptan|finasteride|tamsulosin"
        "|mifepristone|misoprostol|antiretroviral|antiretrovirals|antidepressant"
        "|antidepressants|antipsychotic|antipsychotics|metformina|insulina|metoprololo"
        "|ramipril|quetiapin|sertralin|fluoxetin|escitalopram|risperidon|olanzapin"
        "|aripiprazol|metoprolol|pantoprazol|omeprazol|prednisolon|levothyroxin|testosterone"
        "|estradiol|progesterone|antid\u00e9presseurs|antidepressiva|antidepresivos"
        "|isotretinoin|donepezil|levodopa",
        "lithium|steroids|painkillers|opioids|statins|beta blockers|blood thinners",
    ),
    Terms(
        "procedure",
        "the name of a treatment or examination",
        "chemotherapy|radiotherapy|radiation therapy|dialysis|colonoscopy|endoscopy|biopsy"
        "|mammogram|mammography|mastectomy|hysterectomy|appendectomy|bypass surgery"
        "|heart surgery|knee replacement|hip replacement|caesarean|cesarean|c-section"
        "|vasectomy|electrocardiogram|mri scan|ct scan|psychotherapy|hba1c|cd4 count"
        "|viral load|blood glucose|blood test results|ivf treatment|hormone therapy"
        "|organ transplant|kidney transplant|bone marrow|pap smear|drug rehab|chemotherapie"
        "|strahlentherapie|dialyse|darmspiegelung|koloskopie|psychotherapie|kaiserschnitt"
        "|chimioth\u00e9rapie|radioth\u00e9rapie|coloscopie|psychoth\u00e9rapie"
        "|c\u00e9sarienne|quimioterapia|radioterapia|colonoscopia|ces\u00e1rea|psicoterapia"
        "|chemioterapia|dialisi",
        "mri|surgery|ultrasound|x-ray|transplant|physiotherapy|rehab|blood pressure"
        "|blood test|vaccination|operiert|op\u00e9r\u00e9",
    ),
)

_AROUND = 56
_ABOUT_A_PATIENT = (
    r"(?i:\b(?:"
    r"patients?|diagnos\w*|doctors?|physician|symptoms?|suffer\w*|hospital\w*"
    r"|clinic\w*|prescri\w+|therap\w+|psychiatr\w+|i have|i had|i am on|i'm on|taking"
    r"|history of|medication|mg|recover\w*|treated for|chronic|severe|surgeon"
    r"|oncolog\w+|patient(?:in|en)|arzt|\xc3\xa4rztin|krankenhaus|leidet|leide"
    r"|behandl\w+|klinik|m\xc3\xa9decin|h\xc3\xb4pital|souffr\w+|paciente"
    r"|m\xc3\xa9dico|sufr\w+|paziente|soffr\w+|pati\xc3\xabnt|lijdt|huisarts"
    r")\b)"
)


def term(text: Scanned, word: Word, terms: Terms, *, is_weak: bool) -> Iterator[Found]:
    """Return the hit of a word; a weak one counts where its surroundings speak of a patient."""
    if not is_weak or text.holds(_ABOUT_A_PATIENT, word.start - _AROUND, word.end + _AROUND):
        yield Found(terms.kind, word.start, word.end, terms.reason)
